// SPDX-License-Identifier: Apache-2.0
// Our kernels, run by the stand-in: every byte where it belongs and no other, and the CPU's results to the bit.
#include "device/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "fake_cuda.h"
#include "kernels/reduce.h"

namespace hvd::device {
namespace {

using Bytes = std::vector<unsigned char>;
using Part = Kernels::Part;

constexpr const char* kAnyFile = "/proc/version";  // the stand-in runs the kernels that we have

class KernelsTest : public ::testing::Test {
 protected:
  KernelsTest() {
    fake_cuda::set_devices(2);
    device_ = Device::open(Driver::open().value(), 0, std::make_shared<Bell>([] {})).value();
    stream_ = fake_cuda::make_stream(0);
  }
  ~KernelsTest() override {
    for (void* memory : memories_) fake_cuda::free(memory);
    EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
  }

  std::unique_ptr<Kernels> kernels() { return std::move(Kernels::load(*device_, kAnyFile)).value(); }
  std::string refusal(const std::string& from) { return Kernels::load(*device_, from).status().message(); }
  unsigned char* memory(const Bytes& bytes) {
    memories_.push_back(fake_cuda::allocate(0, bytes.size()));
    std::memcpy(fake_cuda::shadow(memories_.back()), bytes.data(), bytes.size());
    return static_cast<unsigned char*>(memories_.back());
  }
  Bytes read(const unsigned char* memory, size_t bytes) {
    fake_cuda::synchronize(stream_);
    const auto* here = static_cast<const unsigned char*>(fake_cuda::shadow(memory));
    return Bytes(here, here + bytes);
  }
  Bytes noise(size_t bytes) {
    Bytes made(bytes);
    for (unsigned char& byte : made) byte = static_cast<unsigned char>(random_());
    return made;
  }

  std::unique_ptr<Device> device_;
  StreamHandle stream_ = nullptr;
  std::mt19937 random_{7};

 private:
  std::vector<void*> memories_;
};

TEST_F(KernelsTest, CopiesEveryByteAndNoOther) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  // Sizes around those of a thread's step, a block's share and a launch's table; every alignment.
  std::vector<size_t> sizes = {0, 1, 3, 4, 15, 16, 17, 4096, 16'384, 32'767, 32'768, 32'769, 100'000};
  for (int i = 0; i < 300; ++i) sizes.push_back(random_() % 200);
  const Bytes source = noise(400'000);
  Bytes expected = noise(400'000);
  const unsigned char* from = memory(source);
  unsigned char* to = memory(expected);
  std::vector<Part> parts;
  size_t in = 0;
  size_t out = 0;
  for (const size_t size : sizes) {
    in += random_() % 20;
    out += random_() % 20;
    parts.push_back({from + in, to + out, size});
    std::memcpy(expected.data() + out, source.data() + in, size);
    in += size;
    out += size;
  }
  ASSERT_LT(std::max(in, out), source.size());
  fake_cuda::take_calls();
  ASSERT_TRUE(kernels->copy(stream_, parts).ok());
  EXPECT_EQ(fake_cuda::take_calls(), std::vector<std::string>(3, "cuLaunchKernel hvd_copy " + fake_cuda::name_of(stream_)));
  EXPECT_EQ(read(to, expected.size()), expected);
}

TEST_F(KernelsTest, NothingToCopyIsNoLaunch) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  fake_cuda::take_calls();
  EXPECT_TRUE(kernels->copy(stream_, {}).ok());
  EXPECT_TRUE(kernels->copy(stream_, std::vector<Part>(200)).ok());
  EXPECT_EQ(fake_cuda::take_calls(), std::vector<std::string>());
}

// Whatever NaN became of it is one NaN.
void same_nans(DType dtype, Bytes* bytes) {
  if (dtype_size(dtype) == 1) return;
  for (size_t at = 0; at < bytes->size(); at += dtype_size(dtype)) {
    unsigned char* one = bytes->data() + at;
    const unsigned upper = one[dtype_size(dtype) - 1] & 0x7f;
    const unsigned next = one[dtype_size(dtype) - 2];
    bool nan = false;
    if (dtype == DType::kFloat16) nan = upper > 0x7c || (upper == 0x7c && next != 0);
    if (dtype == DType::kBfloat16) nan = upper == 0x7f && next > 0x80;
    float narrow = 0;
    double wide = 0;
    if (dtype == DType::kFloat32) std::memcpy(&narrow, one, sizeof narrow);
    if (dtype == DType::kFloat64) std::memcpy(&wide, one, sizeof wide);
    if (nan || std::isnan(narrow) || std::isnan(wide)) std::memset(one, 0xff, dtype_size(dtype));
  }
}

TEST_F(KernelsTest, ScaleAsTheCpuDoes) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  // All values of the small types, and a part that begins between two steps of 16 bytes.
  Bytes all(2 * 65'536);
  for (size_t i = 0; i < 65'536; ++i) {
    const auto value = static_cast<uint16_t>(i);
    std::memcpy(all.data() + 2 * i, &value, sizeof value);
  }
  const Bytes wide = noise(all.size());
  for (const DType dtype : {DType::kUint8, DType::kInt8, DType::kInt32, DType::kInt64, DType::kFloat16, DType::kBfloat16,
                            DType::kFloat32, DType::kFloat64}) {
    ASSERT_TRUE(Kernels::scales(dtype));
    const size_t element = dtype_size(dtype);
    const Bytes& source = element <= 2 ? all : wide;
    for (const double factor : {1.0 / 3, 0.25, 0.3, -2.5, 1e-30, 1e30, 65'536.0, std::nextafter(1.0 / 3, 1.0)}) {
      Bytes expected(source.size(), 0xAB);
      const size_t count = source.size() / element - 3;
      kernels::scale(dtype, expected.data() + 2 * element, source.data() + element, count, factor);
      const unsigned char* from = memory(source);
      unsigned char* to = memory(Bytes(source.size(), 0xAB));
      ASSERT_TRUE(
          kernels->scale(stream_, dtype, std::vector<Part>{{from + element, to + 2 * element, count * element}}, factor).ok());
      Bytes found = read(to, source.size());
      same_nans(dtype, &expected);
      same_nans(dtype, &found);
      EXPECT_EQ(found, expected) << dtype_name(dtype) << " times " << factor;
      // In place.
      auto* both = memory(source);
      ASSERT_TRUE(kernels->scale(stream_, dtype, std::vector<Part>{{both, both, source.size()}}, factor).ok());
      found = read(both, source.size());
      same_nans(dtype, &found);
      EXPECT_TRUE(std::equal(found.begin() + static_cast<ptrdiff_t>(element),
                             found.begin() + static_cast<ptrdiff_t>((count + 1) * element),
                             expected.begin() + static_cast<ptrdiff_t>(2 * element)));
    }
  }
  EXPECT_FALSE(Kernels::scales(DType::kBool));
  EXPECT_FALSE(Kernels::scales(DType::kInt16));
}

TEST_F(KernelsTest, SaysWhyThereAreNone) {
  EXPECT_EQ(refusal("none"), "cuda_kernels is none");
  EXPECT_EQ(refusal("/nowhere"), "/nowhere can not be read, or is empty");
  fake_cuda::fail("cuModuleLoadData", 209);
  EXPECT_EQ(refusal(kAnyFile), "cuModuleLoadData: CUDA_ERROR_OTHER, an error of the stand-in");
  fake_cuda::fail("cuModuleLoadData", 0);
  fake_cuda::fail("cuModuleGetFunction", 500, 3);
  EXPECT_EQ(refusal(kAnyFile), "hvd_scale_int32: CUDA_ERROR_OTHER, an error of the stand-in");
  fake_cuda::fail("cuModuleGetFunction", 0);
  EXPECT_EQ(fake_cuda::modules(), 0);
}

TEST_F(KernelsTest, LetGoOfTheirModule) {
  std::unique_ptr<Kernels> kernels = this->kernels();
  EXPECT_EQ(fake_cuda::modules(), 1);
  kernels.reset();
  EXPECT_EQ(fake_cuda::modules(), 0);
}

TEST_F(KernelsTest, ALaunchThatFails) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  auto* both = memory(Bytes(16));
  fake_cuda::fail("cuLaunchKernel", 700);
  const Status failed = kernels->copy(stream_, std::vector<Part>{{both, both, 16}});
  fake_cuda::fail("cuLaunchKernel", 0);
  EXPECT_EQ(failed.code(), Code::kIo);
  EXPECT_EQ(failed.message(), "hvd_copy: CUDA_ERROR_ILLEGAL_ADDRESS, an error of the stand-in");
}

}  // namespace
}  // namespace hvd::device
