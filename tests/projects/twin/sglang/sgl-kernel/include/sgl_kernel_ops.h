// What common_ops registers, with as much of torch as it takes.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <vector>
#define TORCH_CHECK(is_fine, told) if (!(is_fine)) throw std::runtime_error(told)
namespace torch { struct Tensor {}; }
using fptr_t = int64_t;
torch::Tensor mscclpp_generate_unique_id();
fptr_t mscclpp_init_context(const torch::Tensor&, const int64_t, const int64_t, torch::Tensor&,
    torch::Tensor&, const int64_t, const std::vector<int64_t>&, const std::vector<int64_t>&,
    const int64_t);
void mscclpp_allreduce(fptr_t, torch::Tensor&, torch::Tensor&, int64_t, int64_t);
