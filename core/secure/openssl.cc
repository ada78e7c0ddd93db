// SPDX-License-Identifier: Apache-2.0
#include "secure/openssl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>

#include <string>

namespace hvd::secure {

void prepare_openssl() {
  // OpenSSL does this once however often it is asked.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

Status openssl_error(std::string_view what) {
  const unsigned long number = ERR_get_error();
  ERR_clear_error();
  const char* reason = number != 0 ? ERR_reason_error_string(number) : nullptr;
  return {Code::kIo, std::string(what) + ": " + (reason != nullptr ? reason : "no reason given")};
}

}  // namespace hvd::secure
