// SPDX-License-Identifier: Apache-2.0
// What operations accept for a tensor, and how it reaches hvd.h.
#pragma once

#include <hvd/hvd.h>

#include <concepts>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor.hpp"

namespace hvd::inline v1 {

namespace detail {

// The element type of a Tensor or of contiguous memory (std::vector, std::array, std::span), const
// if it may not be written.
template <class T>
using element_t = std::remove_pointer_t<decltype(std::data(std::declval<T>()))>;

template <class T>
concept HasShape = requires(T& object) {
  object.raw();
  object.check();
};

// Contiguous memory as a tensor of one dimension. Points into itself.
template <class Range>
class Flat {
 public:
  using T = element_t<Range&>;

  explicit Flat(Range& range)
      : size_(static_cast<std::int64_t>(std::size(range))),
        raw_{const_cast<std::remove_const_t<T>*>(std::data(range)),
             &size_,
             1,
             dtype_of<T>,
             HVD_CPU,
             0,
             {0, 0}} {}
  Flat(const Flat&) = delete;
  Flat& operator=(const Flat&) = delete;

  static constexpr bool fits() { return true; }
  static Expected<void> check() { return {}; }
  const hvd_tensor& raw() const { return raw_; }

 private:
  std::int64_t size_;
  hvd_tensor raw_;
};

// The same members for whatever is a tensor.
template <HasShape T>
const T& as_tensor(T& tensor) {
  return tensor;
}
template <class Range>
  requires(!HasShape<Range>)
Flat<Range> as_tensor(Range& range) {
  return Flat<Range>(range);
}

template <class T>
concept LastingTensor = HasShape<T> || LastingRange<T>;

}  // namespace detail

// What can be given to an operation: a Tensor, or memory that std::span takes and that is still
// there when the expression has ended. A std::vector that nobody holds is refused at compile time.
template <class T>
concept TensorLike =
    detail::LastingTensor<T> && requires(T& object) { requires Element<detail::element_t<T&>>; };
// ... and written to.
template <class T>
concept WritableTensor = TensorLike<T> && !std::is_const_v<detail::element_t<T&>>;
template <class In, class Out>
concept SameElements = std::same_as<std::remove_const_t<detail::element_t<In&>>,
                                    std::remove_const_t<detail::element_t<Out&>>>;

// A tensor of any element type, for operations on several. Of memory that lasts, as above.
class AnyTensor {
 public:
  template <TensorLike T>
  AnyTensor(T&& object) {  // NOLINT: whatever is a tensor is one here
    const auto& tensor = detail::as_tensor(object);
    raw_ = tensor.raw();
    shape_.assign(raw_.shape, raw_.shape + raw_.ndim);
    check_ = tensor.check();
    writable_ = WritableTensor<T>;
  }
  bool writable() const { return writable_; }
  const Expected<void>& check() const { return check_; }
  // Points into this object.
  hvd_tensor raw() const {
    hvd_tensor raw = raw_;
    raw.shape = shape_.data();
    return raw;
  }

 private:
  hvd_tensor raw_{};
  std::vector<std::int64_t> shape_;
  Expected<void> check_;
  bool writable_ = false;
};

}  // namespace hvd::inline v1
