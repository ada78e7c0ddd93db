// SPDX-License-Identifier: Apache-2.0
#include "burst.h"

#include <optional>
#include <utility>

#include "errors.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

// The operations that are started while this exists are announced together.
class Together {
 public:
  explicit Together(hvd_context* context) : context_(context) { hvd_burst_begin(context_, nullptr); }
  ~Together() { hvd_burst_end(context_, nullptr); }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

 private:
  hvd_context* context_;
};

}  // namespace

Prepared::Prepared(std::string name, hvd_dtype dtype, std::vector<int64_t> shape, const hvd_op_options& options)
    : name_(std::move(name)), shape_(std::move(shape)), options_(options) {
  options_.name = name_.c_str();
  tensor_.shape = shape_.data();
  tensor_.ndim = static_cast<int32_t>(shape_.size());
  tensor_.dtype = dtype;
  tensor_.device_type = HVD_CPU;
}

hvd_status Prepared::start(hvd_context* context, void* address, hvd_handle** handle, hvd_error* error) {
  tensor_.data = address;
  return hvd_allreduce_async(context, &tensor_, &tensor_, &options_, handle, error);
}

Burst::Burst(hvd_context* context, py::list prepared, const std::vector<uintptr_t>& addresses, Kept kept)
    : prepared_(std::move(prepared)), kept_(std::move(kept)) {
  if (prepared_.size() != addresses.size()) throw py::value_error("addresses: not as many as allreduces");
  handles_.reserve(addresses.size());
  hvd_error error = HVD_ERROR_INIT;
  const Together together(context);
  for (size_t place = 0; place < addresses.size(); ++place) {
    hvd_handle* handle = nullptr;
    auto& one = prepared_[place].cast<Prepared&>();
    const hvd_status status = one.start(context, reinterpret_cast<void*>(addresses[place]), &handle, &error);
    if (status != HVD_OK) {
      release();
      raise_status(status, error, one.name());
    }
    handles_.push_back(handle);
  }
}

Burst::~Burst() { release(); }

void Burst::release() {
  const std::vector<hvd_handle*> handles = std::exchange(handles_, {});
  for (size_t place = 0; place < handles.size(); ++place) {
    if (place < ended_ || hvd_test(handles[place], nullptr) != HVD_PENDING)
      hvd_handle_free(handles[place]);
    else
      Orphans::of_process().adopt(handles[place], kept_);
  }
}

void Burst::wait() {
  hvd_error error = HVD_ERROR_INIT;
  while (ended_ < handles_.size()) {
    const hvd_status status = wait_in_slices(handles_[ended_], std::nullopt, &error);
    if (status != HVD_OK) raise_status(status, error, prepared_[ended_].cast<Prepared&>().name());
    ++ended_;
  }
  // Taken out first: dropping the buffers can run any Python code, which may ask this burst again.
  const Kept done = std::exchange(kept_, Kept{});
}

}  // namespace hvd::python
