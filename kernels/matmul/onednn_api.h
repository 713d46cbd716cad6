/* Private. The five calls in which oneDNN 3.x and 2.x (2.6 is Debian 12's) differ for us, under one name each: a memory
 * descriptor became an object, the operation descriptor vanished, the sum post-op got two arguments. */
#ifndef KERNELS_ONEDNN_API_H
#define KERNELS_ONEDNN_API_H

#include <dnnl.h>
#include <dnnl_debug.h>

#if DNNL_VERSION_MAJOR >= 3

static inline const_dnnl_memory_desc_t onednn_ref(const dnnl_memory_desc_t *layout)
{
    return *layout;
}

static inline void onednn_layout_destroy(dnnl_memory_desc_t *layout)
{
    dnnl_memory_desc_destroy(*layout);
}

static inline dnnl_status_t onednn_layout(dnnl_memory_desc_t *out, dnnl_data_type_t type, int rank,
                                          const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(out, rank, dims, type, strides);
}

static inline dnnl_status_t onednn_tagged(dnnl_memory_desc_t *out, dnnl_data_type_t type, int rank,
                                          const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(out, rank, dims, type, tag);
}

static inline dnnl_status_t onednn_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const dnnl_memory_desc_t *a,
                                          const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                                          const dnnl_memory_desc_t *product, const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(out, engine, *a, *b, bias ? *bias : NULL, *product, attr);
}

static inline dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

#else

static inline const dnnl_memory_desc_t *onednn_ref(const dnnl_memory_desc_t *layout)
{
    return layout;
}

static inline void onednn_layout_destroy(dnnl_memory_desc_t *layout)
{
    (void)layout; /* a plain struct here */
}

static inline dnnl_status_t onednn_layout(dnnl_memory_desc_t *out, dnnl_data_type_t type, int rank,
                                          const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(out, rank, dims, type, strides);
}

static inline dnnl_status_t onednn_tagged(dnnl_memory_desc_t *out, dnnl_data_type_t type, int rank,
                                          const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(out, rank, dims, type, tag);
}

static inline dnnl_status_t onednn_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const dnnl_memory_desc_t *a,
                                          const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                                          const dnnl_memory_desc_t *product, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, bias, product);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, NULL) : status;
}

static inline dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

#endif
#endif
