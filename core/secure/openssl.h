// SPDX-License-Identifier: Apache-2.0
// What the sources of this layer need of OpenSSL besides its headers. Included by them only.
#pragma once

#include <string_view>

#include "base/status.h"

namespace hvd::secure {

// Before any other call. Keeps OpenSSL from reading its configuration file and from running code at
// the exit of the process, when this library may have been unloaded.
void prepare_openssl();

// "what: <OpenSSL's oldest reason>", and forgets the rest of its queue of errors.
Status openssl_error(std::string_view what);

// A deleter for std::unique_ptr from OpenSSL's functions that free.
template <auto function>
struct Release {
  template <class T>
  void operator()(T* object) const {
    function(object);
  }
};

}  // namespace hvd::secure
