// SPDX-License-Identifier: Apache-2.0
// Arrays as operations take them and give them out.
#pragma once

#include <hvd/hvd.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "error.hpp"

namespace hvd::inline v1 {

// Element types that C++ has no name for: the bits only.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

namespace detail {

template <class T>
constexpr hvd_dtype dtype_number() {
  if constexpr (std::is_same_v<T, bool>) {
    static_assert(sizeof(bool) == 1);
    return HVD_BOOL;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return HVD_FLOAT16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return HVD_BFLOAT16;
  } else if constexpr (std::is_same_v<T, float>) {
    return HVD_FLOAT32;
  } else if constexpr (std::is_same_v<T, double>) {
    return HVD_FLOAT64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return HVD_COMPLEX64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return HVD_COMPLEX128;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? HVD_INT8 : HVD_UINT8;
    if constexpr (sizeof(T) == 2) return is_signed ? HVD_INT16 : HVD_UINT16;
    if constexpr (sizeof(T) == 4) return is_signed ? HVD_INT32 : HVD_UINT32;
    if constexpr (sizeof(T) == 8) return is_signed ? HVD_INT64 : HVD_UINT64;
  }
  return -1;
}

// Memory that is still there when the expression has ended: an lvalue, or a view of somebody
// else's.
template <class Range>
concept LastingRange = std::is_lvalue_reference_v<Range> || std::ranges::borrowed_range<Range>;

}  // namespace detail

// A type that tensors can have: integers of 8 to 64 bits, float, double, std::complex of them,
// bool, Float16, BFloat16.
template <class T>
concept Element = detail::dtype_number<std::remove_cv_t<T>>() >= 0;

template <Element T>
inline constexpr hvd_dtype dtype_of = detail::dtype_number<std::remove_cv_t<T>>();

// Memory of somebody else with a shape, row by row without gaps. T is const for inputs.
template <Element T>
class Tensor {
 public:
  static constexpr std::size_t kMaxDimensions = 32;

  // One dimension. A temporary that owns its memory is refused: the operation goes on after the
  // expression.
  template <class Range>
    requires std::is_constructible_v<std::span<T>, Range&&> && detail::LastingRange<Range>
  Tensor(Range&& data)
      : data_(std::forward<Range>(data)), ndim_(1) {  // NOLINT: spans and vectors are tensors
    shape_[0] = static_cast<std::int64_t>(data_.size());
  }
  // The product of the shape is the size of the data; otherwise operations refuse the tensor, as
  // check() says. Dimensions beyond the 32nd are not kept.
  Tensor(std::span<T> data, std::span<const std::int64_t> shape)
      : data_(data), ndim_(static_cast<std::int32_t>(std::min(shape.size(), kMaxDimensions))) {
    std::copy_n(shape.begin(), ndim_, shape_.begin());
    fits_ = shape.size() <= kMaxDimensions && count() == data.size();
  }
  Tensor(std::span<T> data, std::initializer_list<std::int64_t> shape)
      : Tensor(data, std::span<const std::int64_t>(shape.begin(), shape.size())) {}
  // What can be written can be read.
  operator Tensor<const T>() const
    requires(!std::is_const_v<T>)
  {
    return Tensor<const T>(std::span<const T>(data_), shape());
  }

  T* data() const { return data_.data(); }
  std::size_t size() const { return data_.size(); }
  std::span<const std::int64_t> shape() const {
    return {shape_.data(), static_cast<std::size_t>(ndim_)};
  }
  bool fits() const { return fits_; }
  Expected<void> check() const {
    if (fits_) return {};
    std::string text = "tensor of " + std::to_string(data_.size()) + " elements has shape [";
    for (std::size_t i = 0; i < shape().size(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(shape_[i]);
    return Error(HVD_ERR_INVALID_ARGUMENT, text + "]");
  }

  // Points into this object.
  hvd_tensor raw() const {
    return {const_cast<std::remove_const_t<T>*>(data_.data()),
            shape_.data(),
            ndim_,
            dtype_of<T>,
            HVD_CPU,
            0,
            {0, 0}};
  }

 private:
  std::size_t count() const {
    std::size_t product = 1;
    for (const std::int64_t dim : shape()) {
      // Negative ones come out as very many.
      if (__builtin_mul_overflow(product, static_cast<std::size_t>(dim), &product)) return SIZE_MAX;
    }
    return product;
  }

  std::span<T> data_;
  std::array<std::int64_t, kMaxDimensions> shape_;  // ndim_ of them are set
  std::int32_t ndim_ = 0;
  bool fits_ = true;
};

template <class Range>
Tensor(Range&&) -> Tensor<std::remove_reference_t<decltype(*std::declval<Range&>().data())>>;

// A result of an operation: valid as long as the Pending that gave it out.
template <Element T>
struct Result {
  std::span<const T> data;
  std::span<const std::int64_t> shape;
};

}  // namespace hvd::inline v1
