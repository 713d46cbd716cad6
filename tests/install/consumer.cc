// The public headers from C++: no macros with compound literals, the functions instead.
#include <models/optim.h>
#include <spmd/spmdkit.h>

static spmd_status body(spmd_ctx *ctx, const spmd_tensor *in, spmd_tensor *out, void *)
{
    return spmd_psum(ctx, &in[0], "x", &out[0]);
}

int main()
{
    const float data[4] = {1, 2, 3, 4};
    const int64_t shape[1] = {4};
    float sum = 0;
    spmd_mesh *mesh;
    spmd_array *x, *y = nullptr;
    spmd_spec cut, replicated{};
    if (spmd_mesh_create("x=4", "host", &mesh) || spmd_spec_parse("x", &cut) ||
        spmd_shard(mesh, data, SPMD_F32, 1, shape, cut, &x))
        return 1;
    spmd_job job{};
    job.mesh = mesh;
    job.fn = body;
    job.nin = job.nout = 1;
    job.in = &x;
    job.out = &y;
    job.out_specs = &replicated;
    bool right = spmd_shard_map(&job) == SPMD_OK && spmd_unshard(y, &sum) == SPMD_OK && sum == 10;
    spmd_array_destroy(x);
    spmd_array_destroy(y);
    return right && spmd_mesh_destroy(mesh) == SPMD_OK ? 0 : 1;
}
