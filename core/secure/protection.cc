// SPDX-License-Identifier: Apache-2.0
#include "secure/protection.h"

#include <utility>

namespace hvd::secure {
namespace {

Level level_of(const std::string& name) {
  if (name == "none") return Level::kNone;
  return name == "encrypt" ? Level::kEncrypt : Level::kAuth;
}

}  // namespace

Result<Protection> read_protection(const Options& options) {
  Protection protection;
  protection.level = level_of(options.security);
  if (options.data_mac && protection.level == Level::kNone) {
    return Status(
        Code::kInvalidArgument,
        "init: data_mac is 1 and security is none, which knows no keys; allowed: auth, encrypt");
  }
  const bool descriptor = options.secret_fd >= 0, file = !options.secret_file.empty();
  if (descriptor && file) {
    return Status(Code::kInvalidArgument,
                  "init: secret_fd is " + std::to_string(options.secret_fd) +
                      " and secret_file is \"" + options.secret_file + "\"; allowed: one of them");
  }
  if (!descriptor && !file) return protection;
  Result<Secret> secret = descriptor ? Secret::from_descriptor(static_cast<int>(options.secret_fd))
                                     : Secret::from_file(options.secret_file);
  if (!secret.ok()) {
    return Status(secret.status().code(), "init: " + secret.status().message())
        .with_errno(secret.status().sys_errno());
  }
  Result<std::shared_ptr<Keyring>> keyring = Keyring::make(std::move(secret).value());
  if (!keyring.ok()) return keyring.status();
  protection.keyring = std::move(keyring).value();
  return protection;
}

}  // namespace hvd::secure
