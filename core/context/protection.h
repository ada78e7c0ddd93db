// SPDX-License-Identifier: Apache-2.0
// What protects the connections of this context: the job's secret, and how it is used.
#pragma once

#include <memory>

#include "base/options.h"
#include "base/status.h"
#include "secure/tls.h"

namespace hvd {

struct Protection {
  std::shared_ptr<const secure::Keyring> keyring;  // null: no secret is given
  secure::Level level = secure::Level::kAuth;
};

// Reads the secret that the options name. Two sources, or a secret that cannot be read, are errors.
Result<Protection> read_protection(const Options& options);

}  // namespace hvd
