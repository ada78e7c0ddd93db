// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/cuda.h"

#include <optional>

namespace hvd::backend::mpi {
namespace {

// Open MPI's parameter, which turns CUDA off in a library that was built with it; nothing if it has
// none of that name.
std::optional<bool> support_is_on(const Api& api) {
  if (api.start_tools == nullptr || api.end_tools == nullptr || api.find_variable == nullptr ||
      api.open_variable == nullptr || api.read_variable == nullptr ||
      api.close_variable == nullptr) {
    return std::nullopt;
  }
  int provided = 0;
  if (api.start_tools(kThreadMultiple, &provided) != kSuccess) return std::nullopt;
  std::optional<bool> on;
  int index = 0;
  int count = 0;
  Handle variable = nullptr;
  if (api.find_variable("opal_cuda_support", &index) == kSuccess &&
      api.open_variable(index, nullptr, &variable, &count) == kSuccess) {
    unsigned char value[8] = {};  // a truth value, whose width is the library's affair
    if (count == 1 && api.read_variable(variable, value) == kSuccess) on = value[0] != 0;
    api.close_variable(&variable);
  }
  api.end_tools();
  return on;
}

}  // namespace

// The first answer is a constant of the build in Open MPI 4: a library that was built with CUDA
// gives it also where CUDA is off.
std::string why_not_cuda_aware(const Api& api) {
  const bool said = api.query_cuda_support != nullptr && api.query_cuda_support() == 1;
  const std::optional<bool> on = support_is_on(api);
  if (said && on.value_or(true)) return {};
  const std::string answer =
      api.query_cuda_support == nullptr
          ? "it has no MPIX_Query_cuda_support()"
          : std::string("MPIX_Query_cuda_support() is ") + (said ? "1" : "0");
  return api.version + " is not CUDA-aware: " + answer +
         (on ? std::string(", opal_cuda_support is ") + (*on ? "1" : "0") : "");
}

}  // namespace hvd::backend::mpi
