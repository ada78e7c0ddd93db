// SPDX-License-Identifier: Apache-2.0
// Tensors on a device of the stand-in, filled and read by kernels that are late.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "fake_cuda.h"
#include "unit/context/ranks.h"

namespace hvd::testing {

using Floats = std::vector<float>;

inline constexpr unsigned kLate = 3000;  // microseconds

// A program's stream and its tensors on one device.
class Device {
 public:
  explicit Device(int id) : id_(id), stream_(fake_cuda::make_stream(id)) {}
  ~Device() {
    fake_cuda::synchronize(stream_);
    for (void* memory : memories_) fake_cuda::free(memory);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int id() const { return id_; }
  fake_cuda::Stream stream() const { return stream_; }

  void* memory(size_t elements) {
    memories_.push_back(fake_cuda::allocate(id_, elements * sizeof(float)));
    return memories_.back();
  }
  // Memory that a kernel will have written, some time after this.
  void* filled(const Floats& values, unsigned late = kLate) {
    void* memory = this->memory(values.size());
    write(memory, values, late);
    return memory;
  }
  void write(void* memory, const Floats& values, unsigned late = kLate) const {
    fake_cuda::launch(stream_, late, [memory, values] {
      if (!values.empty())
        std::memcpy(fake_cuda::shadow(memory), values.data(), values.size() * sizeof(float));
    });
  }
  // What a kernel finds that is put on the stream now.
  Floats read(const void* memory, size_t elements) const {
    Floats values(elements);
    fake_cuda::launch(stream_, 0, [&values, memory] {
      if (!values.empty())
        std::memcpy(values.data(), fake_cuda::shadow(memory), values.size() * sizeof(float));
    });
    fake_cuda::synchronize(stream_);
    return values;
  }
  hvd_tensor tensor(void* data, const int64_t* length) const {
    return {data, length, 1, HVD_FLOAT32, HVD_CUDA, id_, {0, 0}};
  }
  hvd_op_options options(const char* name) const {
    hvd_op_options made = named(name);
    made.stream = stream_;
    return made;
  }

 private:
  const int id_;
  const fake_cuda::Stream stream_;
  std::vector<void*> memories_;
};

// Of an operation that has been submitted with HVD_OK, whose result the library has allocated.
inline Floats result_of(const Device& device, hvd_handle* handle) {
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_wait(handle, 20 * kSecond, &error), HVD_OK) << error.message;
  hvd_tensor out{};
  EXPECT_EQ(hvd_handle_output(handle, 0, &out, &error), HVD_OK) << error.message;
  EXPECT_EQ(out.device_type, HVD_CUDA);
  EXPECT_EQ(out.device_id, device.id());
  Floats values = device.read(out.data, static_cast<size_t>(out.shape[0]));
  hvd_handle_free(handle);
  return values;
}

}  // namespace hvd::testing
