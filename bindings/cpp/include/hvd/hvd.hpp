// SPDX-License-Identifier: Apache-2.0
// hvd.hpp: hvd.h for C++20. Header only; link with libhvd. docs/cpp.md has the tour.
#pragma once

#if __cplusplus <= 201703L
#error "hvd.hpp needs C++20: compile with -std=c++20. Older C++ can include hvd.h"
#else
#include "cpp/context.hpp"
#include "cpp/elastic.hpp"
#include "cpp/library.hpp"
#endif
