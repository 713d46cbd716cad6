/* Part of emu_device.h: matrix functions of warps, with plain loops. Which lane holds which element of a wmma fragment
 * is unspecified in CUDA, and different here. */
#ifndef EMU_MATRIX_CUH
#define EMU_MATRIX_CUH

namespace emu
{
constexpr unsigned whole_warp = 0xffffffffu;

/* All lanes show theirs: use(get) with get(lane), and nobody goes on before all have looked. */
template <class T, class F> inline void show(const T &mine, const char *file, int line, F use)
{
    emu_convergence *meeting = emu_converge(whole_warp, EMU_MATRIX, reinterpret_cast<uint64_t>(&mine), file, line);
    const T *lanes[32];
    for (int lane = 0; lane < 32; lane++)
        lanes[lane] =
            (emu_arrived(meeting) >> lane & 1)
                ? reinterpret_cast<const T *>(emu_value_of(meeting, lane))
                : &mine; /* a lane that has ended: reported when the kernel shuffles, here its work is missing */
    use(lanes);
    emu_release(meeting);
    emu_release(emu_converge(whole_warp, EMU_MATRIX, 0, file, line));
}

inline float bf16_of_pair(unsigned pair, int high)
{
    return value_of<float>(high ? pair & 0xffff0000u : pair << 16);
}
} // namespace emu

inline void spmd_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], EMU_SITE)
{
    struct registers {
        const unsigned *a, *b;
    } mine{a, b};
    float sum[4];
    emu::show(mine, file, line, [&](const registers *const *lane) {
        for (int i = 0; i < 4; i++) {
            int row = emu_now.lane / 4 + i / 2 * 8, column = emu_now.lane % 4 * 2 + i % 2;
            sum[i] = d[i];
            for (int k = 0; k < 16; k++) {
                const registers *left = lane[row % 8 * 4 + k % 8 / 2], *right = lane[column * 4 + k % 8 / 2];
                sum[i] += emu::bf16_of_pair(left->a[row / 8 + k / 8 * 2], k % 2) *
                          emu::bf16_of_pair(right->b[k / 8], k % 2);
            }
        }
    });
    for (int i = 0; i < 4; i++)
        d[i] = sum[i];
}

namespace nvcuda
{
namespace wmma
{
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision
{
struct tf32;
}

template <class T> struct stored {
    using type = T;
};
template <> struct stored<precision::tf32> {
    using type = float;
};

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M;
    static constexpr int columns = std::is_same_v<Use, matrix_a> ? K : N;
    static constexpr int num_elements = rows * columns / 32;
    using element_type = T;
    using storage_element_type = typename stored<T>::type;
    storage_element_type x[num_elements];

    static int row(int element)
    {
        return (emu_now.lane + 32 * element) / columns;
    }
    static int column(int element)
    {
        return (emu_now.lane + 32 * element) % columns;
    }
    static size_t offset(int element, size_t stride, bool by_rows)
    {
        size_t r = static_cast<size_t>(row(element)), c = static_cast<size_t>(column(element));
        return by_rows ? r * stride + c : c * stride + r;
    }
};

inline float __float_to_tf32(float x)
{
    unsigned u = emu::value_of<unsigned>(emu::bits(x));
    return emu::value_of<float>((u + 0x1000) & ~0x1fffu); /* to nearest, ties away */
}

template <class F> inline void fill_fragment(F &f, typename F::storage_element_type value)
{
    for (auto &x : f.x)
        x = value;
}

template <class F, class T>
inline void load(F &f, const T *p, unsigned stride, bool by_rows, const char *file, int line)
{
    emu_aligned(p, 32, "wmma::load_matrix_sync", file, line);
    emu_aligned(reinterpret_cast<const void *>(stride * sizeof(T)), 16, "the stride of wmma::load_matrix_sync", file,
                line);
    emu_release(emu_converge(emu::whole_warp, EMU_MATRIX, 0, file, line));
    for (int i = 0; i < F::num_elements; i++)
        f.x[i] = p[F::offset(i, stride, by_rows)];
}

template <class Use, int M, int N, int K, class T, class Layout>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &f, const typename stored<T>::type *p, unsigned stride,
                             EMU_SITE)
{
    load(f, p, stride, std::is_same_v<Layout, row_major>, file, line);
}

template <int M, int N, int K, class T>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const T *p, unsigned stride, layout_t layout,
                             EMU_SITE)
{
    load(f, p, stride, layout == mem_row_major, file, line);
}

template <int M, int N, int K, class T>
inline void store_matrix_sync(T *p, const fragment<accumulator, M, N, K, T> &f, unsigned stride, layout_t layout,
                              EMU_SITE)
{
    using F = fragment<accumulator, M, N, K, T>;
    emu_aligned(p, 32, "wmma::store_matrix_sync", file, line);
    emu_release(emu_converge(emu::whole_warp, EMU_MATRIX, 0, file, line));
    for (int i = 0; i < F::num_elements; i++)
        p[F::offset(i, stride, layout == mem_row_major)] = f.x[i];
}

/* d = a * b + c. Half accumulators are summed in float and rounded once. */
template <int M, int N, int K, class T, class LA, class LB, class C, class D>
inline void mma_sync(fragment<accumulator, M, N, K, D> &d, const fragment<matrix_a, M, N, K, T, LA> &a,
                     const fragment<matrix_b, M, N, K, T, LB> &b, const fragment<accumulator, M, N, K, C> &c, EMU_SITE)
{
    using sum_type = std::conditional_t<std::is_same_v<D, int> || std::is_same_v<D, double>, D, float>;
    struct operands {
        const fragment<matrix_a, M, N, K, T, LA> *a;
        const fragment<matrix_b, M, N, K, T, LB> *b;
    } mine{&a, &b};
    fragment<accumulator, M, N, K, D> result;
    emu::show(mine, file, line, [&](const operands *const *lane) {
        for (int i = 0; i < result.num_elements; i++) {
            sum_type sum = static_cast<sum_type>(c.x[i]);
            for (int k = 0; k < K; k++) {
                int left = result.row(i) * K + k, right = k * N + result.column(i);
                sum += static_cast<sum_type>(lane[left % 32]->a->x[left / 32]) *
                       static_cast<sum_type>(lane[right % 32]->b->x[right / 32]);
            }
            result.x[i] = static_cast<D>(sum);
        }
    });
    d = result;
}
} // namespace wmma
} // namespace nvcuda

#endif
