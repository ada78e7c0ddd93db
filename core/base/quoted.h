// SPDX-License-Identifier: Apache-2.0
// Texts that somebody else has chosen, such as names of operations, inside messages and log lines.
#pragma once

#include <string>
#include <string_view>

namespace hvd {

// In double quotes, on one line and short: control characters and quotes are written as escapes
// (\n, \x1b, \"), and of more than 200 bytes the middle is left out: "layer0....(2800
// bytes)....weight". UTF-8 stays as it is and is cut between characters.
std::string in_quotes(std::string_view text);

}  // namespace hvd
