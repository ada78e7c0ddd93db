// SPDX-License-Identifier: Apache-2.0
#include "boundary.h"

#include <algorithm>

namespace hvd::capi {

namespace {

// The length of the longest prefix of at most `limit` bytes that does not cut a UTF-8 character.
size_t whole_characters(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

}  // namespace

hvd_status report(hvd_error* error, const Status& status) noexcept {
  const hvd_status code = report(error, status.code(), status.message());
  if (error == nullptr || error->struct_size < sizeof(hvd_error)) return code;
  error->rank = status.rank();
  error->sys_errno = status.sys_errno();
  return code;
}

hvd_status report(hvd_error* error, Code code, std::string_view text) noexcept {
  const auto status = static_cast<hvd_status>(code);
  if (error == nullptr || error->struct_size < sizeof(hvd_error)) return status;
  error->status = status;
  error->rank = -1;
  error->sys_errno = 0;
  const size_t size = whole_characters(text, sizeof error->message - 1);
  std::memcpy(error->message, text.data(), size);
  std::memset(error->message + size, 0, sizeof error->message - size);
  return status;
}

Status null_argument(const char* name) {
  return Status(Code::kInvalidArgument, std::string(name) + " is NULL");
}

Status forked_context() {
  return Status(Code::kInvalidState,
                "this context belongs to the parent of this process; a forked child has none");
}

Status read_sized(const void* from, const char* type, size_t first, size_t known, void* out) {
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size < first) {
    return Status(Code::kVersion, std::string(type) + ": struct_size is " + std::to_string(size) +
                                      ", at least " + std::to_string(first) +
                                      " is needed; initialise it with its _INIT macro");
  }
  const auto* bytes = static_cast<const unsigned char*>(from);
  const bool tail_is_zero = std::all_of(bytes + std::min<size_t>(size, known), bytes + size,
                                        [](unsigned char byte) { return byte == 0; });
  if (!tail_is_zero) {
    return Status(Code::kVersion, std::string(type) + ": struct_size is " + std::to_string(size) +
                                      " and fields beyond the " + std::to_string(known) +
                                      " bytes this library knows are set");
  }
  std::memcpy(out, from, std::min<size_t>(size, known));
  return {};
}

Status check_sized(const void* to, const char* type, size_t first, size_t* writable) {
  uint32_t size = 0;
  std::memcpy(&size, to, sizeof size);
  if (size < first) {
    return Status(Code::kVersion, std::string(type) + ": struct_size is " + std::to_string(size) +
                                      ", at least " + std::to_string(first) +
                                      " is needed; initialise it with its _INIT macro");
  }
  *writable = std::min<size_t>(size, *writable);
  return {};
}

}  // namespace hvd::capi
