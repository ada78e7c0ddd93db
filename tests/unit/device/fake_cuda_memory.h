// SPDX-License-Identifier: Apache-2.0
// Memory of the stand-in's devices, which only its own threads can read and write, and page-locked
// memory of the host.
#pragma once

#include <cstddef>

namespace fake_cuda {

void* allocate_memory(int device, size_t bytes);  // nullptr if there is none
bool free_memory(void* memory);
// Where the stand-in finds it; nullptr if it is no memory of a device, or has less bytes.
std::byte* find_memory(const void* memory, size_t bytes);
int device_of(const void* memory);  // -1: no memory of a device
size_t memories_of(int device);

void* allocate_locked(size_t bytes);
bool free_locked(void* memory);
bool is_locked(const void* memory, size_t bytes);

}  // namespace fake_cuda
