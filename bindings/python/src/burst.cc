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
  explicit Together(hvd_context* context) : context_(context) {
    hvd_burst_begin(context_, nullptr);
  }
  ~Together() { hvd_burst_end(context_, nullptr); }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

 private:
  hvd_context* context_;
};

}  // namespace

Prepared::Prepared(std::string name, Described tensors, const hvd_op_options& options)
    : name_(std::move(name)), described_(std::move(tensors)), options_(options) {
  options_.name = name_.c_str();
  for (const auto& [dtype, shape] : described_) {
    hvd_tensor& tensor = tensors_.emplace_back();
    tensor.shape = shape.data();
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = dtype;
    tensor.device_type = HVD_CPU;
  }
}

hvd_status Prepared::start(hvd_context* context, const uintptr_t* addresses, hvd_handle** handle,
                           hvd_error* error) {
  for (hvd_tensor& tensor : tensors_) tensor.data = reinterpret_cast<void*>(*addresses++);
  return hvd_grouped_allreduce_async(context, tensors_.data(), tensors_.data(), tensors_.size(),
                                     &options_, handle, error);
}

Burst::Burst(hvd_context* context, py::list prepared, const std::vector<uintptr_t>& addresses,
             Kept kept)
    : prepared_(std::move(prepared)), kept_(std::move(kept)) {
  size_t tensors = 0;
  for (const py::handle one : prepared_) tensors += one.cast<const Prepared&>().size();
  if (tensors != addresses.size()) throw py::value_error("addresses: not as many as tensors");
  handles_.reserve(prepared_.size());
  hvd_error error = HVD_ERROR_INIT;
  const uintptr_t* next = addresses.data();
  const Together together(context);
  for (const py::handle item : prepared_) {
    hvd_handle* handle = nullptr;
    auto& one = item.cast<Prepared&>();
    const hvd_status status = one.start(context, next, &handle, &error);
    if (status != HVD_OK) {
      release();
      raise_status(status, error, one.name());
    }
    handles_.push_back(handle);
    next += one.size();
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
