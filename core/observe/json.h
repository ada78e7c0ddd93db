// SPDX-License-Identifier: Apache-2.0
// Texts and numbers as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hvd::observe {

// Appends the text in double quotes. Bytes that are no UTF-8, as where a long name was cut, become
// U+FFFD, because a parser refuses the whole file for one of them.
void append_text(std::string& out, std::string_view text);
void append_number(std::string& out, int64_t number);
// Appends nanoseconds as microseconds with three digits after the point.
void append_microseconds(std::string& out, int64_t nanoseconds);

}  // namespace hvd::observe
