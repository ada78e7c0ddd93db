// SPDX-License-Identifier: Apache-2.0
#include "done.h"

#include <dlfcn.h>

#include <cstring>

namespace hvd::tensorflow {
namespace {

// libstdc++'s std::function, which its ABI keeps: what is called, and two functions that copy and
// call it.
struct FunctionLayout {
  void* stored[2];
  void* manager;
  void* invoker;
};
static_assert(sizeof(FunctionLayout) == sizeof(std::function<void()>));

bool is_code_of_tensorflow(const void* address) {
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "tensorflow") != nullptr;
}

bool is_function(const TF_AsyncOpKernelDoneCallback* done) {
  FunctionLayout layout;
  std::memcpy(&layout, static_cast<const void*>(done), sizeof layout);
  return is_code_of_tensorflow(layout.manager) && is_code_of_tensorflow(layout.invoker);
}

}  // namespace

// Up to TensorFlow 2.21 the C interface passes the address of the std::function that ComputeAsync
// was given as an argument, so it ends with that call, although the function exists to be called
// later. A copy lives on. Where TensorFlow passes something else, that is taken for what the
// interface promises.
std::function<void()> kept_done(TF_AsyncOpKernelDoneCallback* done) {
  static const bool points_to_function = is_function(done);
  if (points_to_function) return *reinterpret_cast<const std::function<void()>*>(done);
  return [done] { tf().RunAsyncOpKernelDoneCallback(done); };
}

}  // namespace hvd::tensorflow
