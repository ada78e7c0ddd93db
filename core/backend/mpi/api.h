// SPDX-License-Identifier: Apache-2.0
// Open MPI without its headers: the functions that this plug-in calls, looked up in the libmpi that
// the process has or can load. Open MPI's handles are addresses of exported objects, the same in
// every release that calls itself libmpi.so.40.
#pragma once

#include <cstddef>
#include <string>

namespace hvd::backend::mpi {

using Handle = void*;
using UserFunction = void(void* in, void* inout, int* length, Handle* datatype);

inline constexpr int kSuccess = 0;
inline constexpr int kThreadSingle = 0;
inline constexpr int kThreadMultiple = 3;
inline constexpr int kTypeShared = 0;  // MPI_COMM_TYPE_SHARED
inline constexpr size_t kMaxErrorString = 256;
// enough for MPICH's too, whose text we print when we refuse it
inline constexpr size_t kMaxLibraryVersion = 8192;
inline void* in_place() { return reinterpret_cast<void*>(1); }

struct Api {
#define HVD_MPI_FUNCTIONS(call)                                                                    \
  call(Initialized, (int* flag)) call(Finalized, (int* flag)) call(                                \
      Init_thread, (int* argc, char*** argv, int required, int* provided)) call(Query_thread,      \
                                                                                (int* provided))   \
      call(Finalize, ()) call(Get_library_version, (char* text, int* length)) call(                \
          Error_string, (int code, char* text, int* length))                                       \
          call(Comm_rank, (Handle comm, int* rank)) call(                                          \
              Comm_size, (Handle comm, int* size)) call(Comm_group, (Handle comm, Handle * group)) \
              call(Comm_create_group, (Handle comm, Handle group, int tag, Handle* made)) call(    \
                  Comm_split_type, (Handle comm, int type, int key, Handle info, Handle* made))    \
                  call(Comm_set_errhandler, (Handle comm, Handle handler))                         \
                      call(Comm_free, (Handle * comm)) call(                                       \
                          Group_incl, (Handle group, int count, const int* ranks, Handle* made))   \
                          call(Group_free, (Handle * group)) call(                                 \
                              Op_create, (UserFunction * function, int commutes, Handle* op))      \
                              call(Bcast,                                                          \
                                   (void* buffer, int count, Handle type, int root, Handle comm))  \
                                  call(Ibcast, (void* buffer, int count, Handle type, int root,    \
                                                Handle comm, Handle* request))                     \
                                      call(Iallreduce,                                             \
                                           (const void* in, void* out, int count, Handle type,     \
                                            Handle op, Handle comm, Handle* request))              \
                                          call(Iallgatherv,                                        \
                                               (const void* in, int count, Handle type, void* out, \
                                                const int* counts, const int* displacements,       \
                                                Handle out_type, Handle comm, Handle* request))    \
                                              call(Isend, (const void* in, int count, Handle type, \
                                                           int to, int tag, Handle comm,           \
                                                           Handle* request))                       \
                                                  call(Irecv, (void* out, int count, Handle type,  \
                                                               int from, int tag, Handle comm,     \
                                                               Handle* request))                   \
                                                      call(Testall, (int count, Handle* requests,  \
                                                                     int* flag, void* statuses))

// Null where the library has none; control variables are Open MPI's parameters.
#define HVD_MPI_OPTIONAL(call)                                                               \
  call(query_cuda_support, "MPIX_Query_cuda_support", ())                                    \
      call(start_tools, "MPI_T_init_thread", (int required, int* provided))                  \
          call(end_tools, "MPI_T_finalize", ())                                              \
              call(find_variable, "MPI_T_cvar_get_index", (const char* name, int* index))    \
                  call(open_variable, "MPI_T_cvar_handle_alloc",                             \
                       (int index, void* object, Handle* variable, int* count))              \
                      call(read_variable, "MPI_T_cvar_read", (Handle variable, void* value)) \
                          call(close_variable, "MPI_T_cvar_handle_free", (Handle * variable))

#define HVD_MPI_OBJECTS(object)                                                         \
  object(comm_world, ompi_mpi_comm_world) object(info_null, ompi_mpi_info_null)         \
      object(request_null, ompi_request_null) object(errors, ompi_mpi_errors_return)    \
          object(byte, ompi_mpi_byte) object(uint8, ompi_mpi_uint8_t)                   \
              object(int8, ompi_mpi_int8_t) object(uint16, ompi_mpi_uint16_t)           \
                  object(int16, ompi_mpi_int16_t) object(int32, ompi_mpi_int32_t)       \
                      object(int64, ompi_mpi_int64_t) object(float32, ompi_mpi_float)   \
                          object(float64, ompi_mpi_double) object(sum, ompi_mpi_op_sum) \
                              object(product, ompi_mpi_op_prod)

#define HVD_MPI_MEMBER(name, arguments) int(*name) arguments = nullptr;
  HVD_MPI_FUNCTIONS(HVD_MPI_MEMBER)
#undef HVD_MPI_MEMBER
#define HVD_MPI_MEMBER(name, symbol, arguments) int(*name) arguments = nullptr;
  HVD_MPI_OPTIONAL(HVD_MPI_MEMBER)
#undef HVD_MPI_MEMBER
#define HVD_MPI_MEMBER(name, symbol) Handle name = nullptr;
  HVD_MPI_OBJECTS(HVD_MPI_MEMBER)
#undef HVD_MPI_MEMBER

  std::string version;  // "Open MPI v4.1.4"
};

// The process's libmpi, loaded by the first call that can. Null with the reason in `problem` if
// there is none to use.
const Api* load_api(std::string* problem);

// The library's text for an error number, in one line.
std::string error_text(const Api& api, int code);

}  // namespace hvd::backend::mpi
