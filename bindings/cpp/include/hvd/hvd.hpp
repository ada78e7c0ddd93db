// SPDX-License-Identifier: Apache-2.0
// hvd.hpp: hvd.h for C++20. Header only; link with libhvd. docs/cpp.md has the tour.
#pragma once

#include "cpp/context.hpp"
#include "cpp/library.hpp"
