// In place of mscclpp: the operators stay registered, so that the library loads, and say why they
// do not work. The header's own declarations decide whether these are the functions that it means.
#include <cstdint>
#include <vector>

#include "sgl_kernel_ops.h"

namespace {

[[noreturn]] void absent() {
  TORCH_CHECK(false, "This build of sgl-kernel has no mscclpp: start without --enable-mscclpp.");
  throw 0;  // unreachable
}

}  // namespace

torch::Tensor mscclpp_generate_unique_id() { absent(); }

fptr_t mscclpp_init_context(
    const torch::Tensor&,
    const int64_t,
    const int64_t,
    torch::Tensor&,
    torch::Tensor&,
    const int64_t,
    const std::vector<int64_t>&,
    const std::vector<int64_t>&,
    const int64_t) {
  absent();
}

void mscclpp_allreduce(fptr_t, torch::Tensor&, torch::Tensor&, int64_t, int64_t) { absent(); }
