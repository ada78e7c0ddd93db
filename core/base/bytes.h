// SPDX-License-Identifier: Apache-2.0
// Writing and reading of typed values in byte strings. The reader never runs over the end: after
// the first failure every read returns zero and ok() is false, so decoders check once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvd {

using Bytes = std::vector<std::byte>;

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_byte_span(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Appends to a vector that the caller keeps and reuses, so that steady state allocates nothing.
class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}

  template <class T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    append(&value, sizeof value);
  }
  void put_bytes(std::span<const std::byte> bytes) { append(bytes.data(), bytes.size()); }
  void put_text(std::string_view text) { append(text.data(), text.size()); }
  size_t size() const { return out_.size(); }
  // Overwrites a value written before.
  template <class T>
  void patch(size_t at, T value) {
    std::memcpy(out_.data() + at, &value, sizeof value);
  }

 private:
  void append(const void* data, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
  }
  Bytes& out_;
};

class ByteReader {
 public:
  // `behind` follows after `bytes`; no value that is taken at once may lie in both.
  explicit ByteReader(std::span<const std::byte> bytes, std::span<const std::byte> behind = {})
      : bytes_(bytes), behind_(behind) {}

  template <class T>
  T get() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    const std::span<const std::byte> raw = take(sizeof value);
    if (raw.size() == sizeof value) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take(size_t size) {
    if (bytes_.empty()) bytes_ = std::exchange(behind_, {});
    if (!ok_ || size > bytes_.size()) {
      ok_ = false;
      bytes_ = behind_ = {};
      return {};
    }
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::string_view take_text(size_t size) { return as_text(take(size)); }
  bool ok() const { return ok_; }
  bool at_end() const { return left() == 0; }
  size_t left() const { return bytes_.size() + behind_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::span<const std::byte> behind_;
  bool ok_ = true;
};

}  // namespace hvd
