/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd.h: collective communication for data-parallel programs, in one C header. The file is long on
 * purpose: this page is the reference, and programs and binding generators need nothing else.
 *
 * A job is `size` ranks. Every rank creates one hvd_context and then submits operations (allreduce,
 * broadcast, ...). Operations carry a name; ranks may submit them in different orders, and the
 * library agrees on one order, checks that every rank means the same thing, runs the operation and
 * completes a handle.
 *
 * OWNERSHIP. hvd_context, hvd_process_set and hvd_handle are opaque. Whoever receives one from a
 *   function with an `out_` parameter owns a reference and gives it back with the matching _free or
 *   _destroy. Buffers of an operation belong to the caller and must stay valid until the operation
 *   has completed (not until hvd_handle_free). Strings passed in are copied before the call
 *   returns. Strings returned are static.
 * THREADS. Every function may be called from any thread. Calls on the same handle must not overlap,
 *   except hvd_test and hvd_wait, which may. Callbacks run one at a time on a thread of the
 *   context; inside one, calls that would block return HVD_ERR_WOULD_DEADLOCK.
 * ERRORS. Functions return hvd_status: 0 is success, 1 is pending (not an error), negative values
 *   are errors grouped by what is broken (section 2). Details go to the caller's hvd_error, which
 *   may be NULL. Output parameters are untouched on failure, except where a function says
 *   otherwise. The library never exits, never aborts, installs no signal handler, and prints
 *   nothing, unless hvd_log_to_fd is given to hvd_init.
 * VERSIONS. Structs that start with struct_size are initialised with their _INIT macro and may grow
 *   at the end. Structs without it are frozen. Numbers never change their meaning. See
 *   hvd_version().
 * FORK. A context belongs to the process that created it. In a child made by fork, every call on it
 *   returns HVD_ERR_INVALID_STATE; the parent is not affected.
 */
#ifndef HVD_H
#define HVD_H

#include <stddef.h>
#include <stdint.h>

#include "version.h"

#if defined(_WIN32)
#define HVD_API __declspec(dllimport)
#else
#define HVD_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 1. Version and build -------------------------------------------------------------------- */

/* The library's version as HVD_VERSION is for the header. */
HVD_API uint32_t hvd_version(void);

/* The same as text, "1.0.0". Static. */
HVD_API const char *hvd_version_string(void);

/* 1 if this installation has the feature, else 0. An unknown name is 0. Names known now:
   "shm", "tcp"       always;
   "cuda"             tensors of HVD_CUDA can be given where there is a driver, which is not
                      asked for here;
   "gloo", "mpi"      the plug-in is there and can load what it needs, which this call tries;
   "mpi.initialized"  MPI has been started in this process, by whomever, and not ended;
   "mpi.threads"      it also serves several threads at once;
   "nccl"             NVIDIA's library is there, which this call loads.
   HOROVOD_BACKEND_PATH names another folder of the plug-ins than the library's, and
   HOROVOD_NCCL_LIBRARY the NCCL to use. */
HVD_API int32_t hvd_has_feature(const char *name);

/* ---- 2. Status and error --------------------------------------------------------------------- */

typedef int32_t hvd_status;

#define HVD_OK 0
#define HVD_PENDING 1 /* not finished yet; not an error */

/* -1 ... -19: the call was wrong. Nothing happened; correct the call and go on. */

/* a value is outside what the function allows; the message has both */
#define HVD_ERR_INVALID_ARGUMENT (-1)
/* right call, wrong time: in a forked child, on a destroyed set, a second callback */
#define HVD_ERR_INVALID_STATE (-2)
#define HVD_ERR_NOT_FOUND (-3) /* no option, process set or metric of that name or id */
/* the name is in flight, or a process set has the same ranks */
#define HVD_ERR_ALREADY_EXISTS (-4)
/* valid, but not offered: a dtype for this operation, a device, an address */
#define HVD_ERR_UNSUPPORTED (-5)
/* struct_size is smaller than version 1's, or has fields this library lacks */
#define HVD_ERR_VERSION (-6)
#define HVD_ERR_OUT_OF_MEMORY (-7)
#define HVD_ERR_WOULD_DEADLOCK (-8) /* a blocking call inside a callback */

/* -20 ... -39: this operation failed, on every rank that submitted it. The process set is still
 * usable. */
#define HVD_ERR_MISMATCH (-20)  /* ranks disagree; the message has what each said */
#define HVD_ERR_CANCELLED (-21) /* the process set was destroyed while the operation waited */
/* the operation's time ran out; the message names the missing ranks */
#define HVD_ERR_TIMEOUT (-22)

/* -40 ... -59: this process set is broken; others are usable. */
#define HVD_ERR_SET_BROKEN (-40)

/* -60 ... -79: the whole context is broken. Shut it down; a new one may be created in the same
 * process. */

/* a rank died or closed its connection; the message names rank, host, pid and cause */
#define HVD_ERR_PEER_LOST (-60)
#define HVD_ERR_SHUT_DOWN (-62) /* this rank or another one called hvd_shutdown */
/* the operating system failed a call that the context cannot live without */
#define HVD_ERR_IO (-63)
/* an elastic job gives this process no place any more; the message says why */
#define HVD_ERR_DISMISSED (-64)

/* -80: a bug in this library. */
#define HVD_ERR_INTERNAL (-80)

/* Filled by a failing call if the caller passes one; left alone if struct_size is too small. 1,024
 * bytes. */
typedef struct hvd_error {
  uint32_t struct_size;
  hvd_status status;
  int32_t rank;       /* the rank at fault, or -1 if none or unknown */
  int32_t sys_errno;  /* errno of a failed system call, or 0 */
  char message[1008]; /* UTF-8, NUL-terminated, one line */
} hvd_error;
#define HVD_ERROR_INIT {(uint32_t)sizeof(hvd_error), 0, -1, 0, {0}}

/* "HVD_ERR_MISMATCH" for -20; "HVD_ERR_UNKNOWN" for a number that is no status. Static. */
HVD_API const char *hvd_status_name(hvd_status status);

/* ---- 3. Data --------------------------------------------------------------------------------- */

typedef int32_t hvd_dtype;
#define HVD_UINT8 0
#define HVD_INT8 1
#define HVD_UINT16 2
#define HVD_INT16 3
#define HVD_INT32 4
#define HVD_INT64 5
#define HVD_FLOAT16 6
#define HVD_FLOAT32 7
#define HVD_FLOAT64 8
#define HVD_BOOL 9 /* one byte, 0 or 1 */
#define HVD_BFLOAT16 10
#define HVD_UINT32 11
#define HVD_UINT64 12
#define HVD_COMPLEX64 13  /* two float32: the real and the imaginary part */
#define HVD_COMPLEX128 14 /* two float64 */
/* These can be moved, not reduced. */
/* text, and whatever else has no number here: the last dimension counts its bytes */
#define HVD_BYTES 15
#define HVD_COMPLEX32 16 /* two float16 */
#define HVD_FLOAT8_E3M4 17
#define HVD_FLOAT8_E4M3 18
#define HVD_FLOAT8_E4M3B11FNUZ 19
#define HVD_FLOAT8_E4M3FN 20
#define HVD_FLOAT8_E4M3FNUZ 21
#define HVD_FLOAT8_E5M2 22
#define HVD_FLOAT8_E5M2FNUZ 23
#define HVD_FLOAT8_E8M0FNU 24
#define HVD_FLOAT4_E2M1FN 25 /* of these five each element has a byte of its own */
#define HVD_INT2 26
#define HVD_UINT2 27
#define HVD_INT4 28
#define HVD_UINT4 29

typedef int32_t hvd_reduce_op;
/* sum, then divided by the size of the process set; integers truncate toward zero; not for bool */
#define HVD_AVERAGE 0
#define HVD_SUM 1    /* integers wrap around; for HVD_BOOL it is "or" */
#define HVD_ADASUM 2 /* floating dtypes only */
/* NaN if any input is NaN; for HVD_BOOL it is "and"; not for complex numbers, as all that follow */
#define HVD_MIN 3
#define HVD_MAX 4     /* NaN if any input is NaN; for HVD_BOOL it is "or" */
#define HVD_PRODUCT 5 /* for HVD_BOOL it is "and" */

typedef int32_t hvd_device_type;
#define HVD_CPU 1 /* DLPack's numbering */
#define HVD_CUDA 2

/* An array in row-major order without gaps. An operation uses `data` until it has ended; shapes,
   splits, names and options are copied before the call returns. Frozen: it appears in arrays, so it
   never grows. */
typedef struct hvd_tensor {
  /* may be NULL if the tensor has no elements; of HVD_CUDA: memory of that device */
  void *data;
  const int64_t *shape; /* ndim numbers, each >= 0; may be NULL if ndim is 0 */
  int32_t ndim;         /* 0 (a scalar, one element) to 32 */
  hvd_dtype dtype;
  hvd_device_type device_type; /* the same for all tensors of an operation, and on all ranks */
  int32_t device_id;           /* 0 for HVD_CPU; the number of the CUDA device in this process */
  uint64_t reserved[2];        /* 0 */
} hvd_tensor;

/* Bytes per element, or 0 for a number that is no dtype. */
HVD_API size_t hvd_dtype_size(hvd_dtype dtype);

/* "float32"; "unknown" for a number that is no dtype. Static. */
HVD_API const char *hvd_dtype_name(hvd_dtype dtype);

typedef struct hvd_context hvd_context;
typedef struct hvd_process_set hvd_process_set;
typedef struct hvd_handle hvd_handle;

/* ---- 4. Rendezvous --------------------------------------------------------------------------- */

/*
 * How ranks find each other: a key-value store that all of them reach, given as a URL or as these
 * callbacks. The library uses it during hvd_init only, from the calling thread. Keys are printable
 * ASCII of at most 200 bytes.
 */
typedef struct hvd_store {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  void *self;     /* passed back as the first argument */
  /* Stores a value, replacing an older one. */
  hvd_status (*set)(void *self, const char *key, const void *value, size_t size);
  /* Waits until the key exists, at most timeout_ns (negative: for ever), then copies it. *size is
     the capacity of `value` on entry and the size of the stored value on return. A value larger
     than the capacity: HVD_ERR_INVALID_ARGUMENT, *size set, nothing copied. No such key in time:
     HVD_ERR_TIMEOUT. */
  hvd_status (*get)(void *self, const char *key, int64_t timeout_ns, void *value, size_t *size);
  /* Adds delta to a counter that starts at 0, atomically among all ranks; *result is the sum. */
  hvd_status (*add)(void *self, const char *key, int64_t delta, int64_t *result);
  /* Removes a key; removing one that is absent is HVD_OK. */
  hvd_status (*remove)(void *self, const char *key);
} hvd_store;
#define HVD_STORE_INIT {(uint32_t)sizeof(hvd_store), 0, NULL, NULL, NULL, NULL, NULL}

/* ---- 5. Logging ------------------------------------------------------------------------------ */

typedef int32_t hvd_log_level;
#define HVD_LOG_ERROR 0
#define HVD_LOG_WARN 1
#define HVD_LOG_INFO 2
#define HVD_LOG_DEBUG 3
#define HVD_LOG_TRACE 4

/* Receives one line without a newline. Called from any thread of the context, one call at a time.
   It must return soon and must not call back into the library; it may be called until the context
   and all its handles are freed. Without a log function the library is silent. Lines above the
   option log_level (HOROVOD_LOG_LEVEL, by default warnings) do not come. */
typedef void (*hvd_log_fn)(void *user_data, hvd_log_level level, int32_t rank,
                           const char *component, const char *message);

/* A log function to give to hvd_init: writes each line to the file descriptor (intptr_t)user_data,
   to standard error if that is NULL, as "[2026-01-31 23:59:59.123456: W stall] [0]: text", without
   the time where HOROVOD_LOG_HIDE_TIME is 1. A line is written at once, with at most 4,096 bytes;
   one for which the descriptor has no room is dropped. */
HVD_API void hvd_log_to_fd(void *user_data, hvd_log_level level, int32_t rank,
                           const char *component, const char *message);

/* ---- 6. Context ------------------------------------------------------------------------------ */

/* One setting by name; hvd_option_name() lists them. Frozen. */
typedef struct hvd_option {
  const char *name;
  const char *value;
} hvd_option;

typedef struct hvd_init_options {
  uint32_t struct_size;
  int32_t rank;  /* -1: from the environment; without one, in order of arrival at the store */
  int32_t size;  /* 0: from the environment */
  int32_t flags; /* 0 */
  /* "env:" (default): whatever started this process says: horovodrun, torchrun, mpirun, srun and
     others (docs/launchers.md); nothing means a job of one rank. "file:///directory",
     "tcp://host:port,host:port/job" (rank 0 listens there; others than loopback need a secret),
     "unix://name" (one user on one machine), "mem://name" (threads of this process), or NULL with
     `store` set. */
  const char *rendezvous;
  const hvd_store *store;
  /* for the whole of hvd_init; 0: the option start_timeout; negative: none */
  int64_t timeout_ns;
  const hvd_option *options; /* these win over the environment, which wins over the defaults */
  size_t option_count;
  hvd_log_fn log_fn;
  void *log_user_data;
} hvd_init_options;
#define HVD_INIT_OPTIONS_INIT \
  {(uint32_t)sizeof(hvd_init_options), -1, 0, 0, NULL, NULL, 0, NULL, 0, NULL, NULL}

/*
 * Joins a job. Collective over all ranks: returns when every rank has arrived, or fails at the time
 * limit with a message that names the ranks that have not. options may be NULL. A process may hold
 * several contexts, of one job or of several.
 */
HVD_API hvd_status hvd_init(const hvd_init_options *options, hvd_context **out_context,
                            hvd_error *error);

/*
 * Leaves the job. Not collective: operations in flight on this rank end with HVD_ERR_SHUT_DOWN, and
 * so do operations of other ranks that need this one. Waits at most timeout_ns (negative: for ever)
 * for operations that are already moving data; what is not finished then is dropped. A second call
 * is HVD_OK. The context stays valid for queries until hvd_context_free.
 */
HVD_API hvd_status hvd_shutdown(hvd_context *context, int64_t timeout_ns, hvd_error *error);

/* Gives the context back; shuts it down first if nobody did. Handles and process sets of it stay
   valid to free. NULL is allowed. Inside a callback of the same context it only drops the
   reference; the last callback ends it. */
HVD_API void hvd_context_free(hvd_context *context);

/* HVD_OK while the context works; otherwise the reason why it does not, the same on every surviving
 * rank. */
HVD_API hvd_status hvd_context_status(hvd_context *context, hvd_error *error);

/* ---- 7. Topology and membership -------------------------------------------------------------- */

typedef struct hvd_topology {
  uint32_t struct_size;
  int32_t rank, size;             /* in the job */
  int32_t local_rank, local_size; /* on this host; in an elastic job local_rank is the slot */
  int32_t cross_rank, cross_size; /* among the hosts that have a rank with this local_rank */
  int32_t homogeneous;            /* 1 if every host has the same number of ranks */
} hvd_topology;
#define HVD_TOPOLOGY_INIT {(uint32_t)sizeof(hvd_topology), 0, 0, 0, 0, 0, 0, 0}

HVD_API hvd_status hvd_topology_get(hvd_context *context, hvd_topology *out, hvd_error *error);

/*
 * In an elastic job ranks may come and go: `horovodrun --min-np`. hvd_init then waits for the next
 * epoch, the time between two changes of the members, and joins it with a rank that may be another
 * one than before. When an operation has failed, or all members have agreed to go on with others,
 * every member shuts its context down and calls hvd_init again; that is all an epoch takes.
 */
#define HVD_MEMBERS_REMOVED 1
#define HVD_MEMBERS_ADDED 2

typedef struct hvd_membership {
  uint32_t struct_size;
  uint32_t changes;    /* HVD_MEMBERS_*: the changes to come that this rank has heard of */
  int64_t epoch;       /* counts the memberships of the job from 1; 0 where members are fixed */
  int32_t synchronize; /* 1: some member has another state, and takes over that of rank 0 */
  int32_t reserved;    /* 0 */
} hvd_membership;
#define HVD_MEMBERSHIP_INIT {(uint32_t)sizeof(hvd_membership), 0, 0, 0, 0}

/* Tells what this rank knows of the members of its job. Never blocks. Ranks hear of a change one
 * after the other, so they agree on when to act on it, with an allreduce of `changes` say. */
HVD_API hvd_status hvd_membership_get(hvd_context *context, hvd_membership *out, hvd_error *error);

/* Announces that this rank wants to leave an elastic job: all members hear of a change. The next
 * hvd_init fails with HVD_ERR_DISMISSED, unless others need the state of this rank first.
 * HVD_ERR_INVALID_STATE where members are fixed. A process that a signal has stopped for so long
 * that the others have gone on without it gets HVD_ERR_DISMISSED, too, with ETIMEDOUT as sys_errno.
 */
HVD_API hvd_status hvd_membership_leave(hvd_context *context, hvd_error *error);

/* ---- 8. Process sets ------------------------------------------------------------------------- */

/* The set of all ranks, id 0. Never NULL for a valid context; not to be destroyed, and freeing it
 * is allowed and does nothing. */
HVD_API hvd_process_set *hvd_process_set_world(hvd_context *context);

/*
 * Makes a set of these ranks (any order; sorted inside). Collective over the whole job: every rank
 * calls it with the same ranks, members or not, in the same order relative to other creates and
 * destroys. Blocks until all have. Operations of different sets run concurrently.
 * HVD_ERR_ALREADY_EXISTS if a set has the same ranks, HVD_ERR_MISMATCH if ranks differ between
 * callers. Ids of destroyed sets are used again, oldest first; without any, ids count up from 1.
 */
HVD_API hvd_status hvd_process_set_create(hvd_context *context, const int32_t *ranks,
                                          size_t rank_count, hvd_process_set **out_set,
                                          hvd_error *error);

/* Ends a set; collective over the whole job. Waiting operations of the set end with
   HVD_ERR_CANCELLED. Drops the caller's reference on success; other references only answer
   hvd_process_set_id with -1. */
HVD_API hvd_status hvd_process_set_destroy(hvd_process_set *set, hvd_error *error);

/*
 * A reference to the set with this id, to be given back with hvd_process_set_free. In an elastic
 * job a set whose members all go on in the next epoch has its id there, too, in every member's
 * context and with the ranks of that epoch. HVD_ERR_INVALID_STATE if not all of them do,
 * HVD_ERR_NOT_FOUND if there never was a set with this id.
 */
HVD_API hvd_status hvd_process_set_find(hvd_context *context, int32_t id, hvd_process_set **out_set,
                                        hvd_error *error);

/* Drops a reference without ending the set. NULL is allowed. */
HVD_API void hvd_process_set_free(hvd_process_set *set);

HVD_API int32_t hvd_process_set_id(const hvd_process_set *set); /* -1 after destroy */
/* this rank's place in the set, -1 if no member */
HVD_API int32_t hvd_process_set_rank(const hvd_process_set *set);
HVD_API int32_t hvd_process_set_size(const hvd_process_set *set);

/* The ranks, ascending. *rank_count is the capacity on entry and the count on return; with too
   little room (or ranks NULL) only *rank_count is set and the result is HVD_ERR_INVALID_ARGUMENT
   (HVD_OK if ranks is NULL). */
HVD_API hvd_status hvd_process_set_ranks(const hvd_process_set *set, int32_t *ranks,
                                         size_t *rank_count, hvd_error *error);

/* The ids of all sets, ascending; same size protocol. */
HVD_API hvd_status hvd_process_set_ids(hvd_context *context, int32_t *ids, size_t *id_count,
                                       hvd_error *error);

/* ---- 9. Collectives -------------------------------------------------------------------------- */

typedef struct hvd_op_options {
  uint32_t struct_size;
  int32_t priority; /* of operations that are ready together, higher ones run first */
  /* unique among operations in flight of the set; at most 4,096 bytes; NULL: matched by the order
     of unnamed calls within the set since its last join, of all kinds */
  const char *name;
  hvd_process_set *set;    /* NULL: all ranks */
  int64_t timeout_ns;      /* 0: the option op_timeout; negative: none */
  hvd_reduce_op reduce_op; /* allreduce, reducescatter */
  int32_t root;            /* broadcast, gather: a rank of the job, also inside a set */
  /* Inputs are multiplied by prescale before the reduction, results by postscale after it.
     Integers: in double, truncated toward zero, saturating; a factor 1/n divides exactly. */
  double prescale;
  double postscale;
  void *stream; /* tensors of HVD_CUDA: the cudaStream_t that writes the inputs and will use the
                   results; NULL: the legacy default stream; not cudaStreamPerThread. It must live
                   until the operation has ended. */
} hvd_op_options;
#define HVD_OP_OPTIONS_INIT \
  {(uint32_t)sizeof(hvd_op_options), 0, NULL, NULL, 0, HVD_SUM, 0, 1.0, 1.0, NULL}

/*
 * All operations: collective over the set, return at once, complete the handle later. `options` may
 * be NULL (defaults). `output` may be NULL: the library then allocates the result, which
 * hvd_handle_output gives out and hvd_handle_free releases. In place means output->data ==
 * input->data; other overlap is an error. Duplicate name in flight: HVD_ERR_ALREADY_EXISTS. All
 * dtypes can be moved; all before HVD_BYTES can be reduced, with the exceptions named at
 * HVD_AVERAGE ff.
 *
 * Tensors of HVD_CUDA: the operation begins when the work is done that options->stream has been
 * given so far, and nobody waits for that on the host. When the operation ends the results may be
 * on their way yet: work that the stream is given from then on sees them; another stream, or the
 * host, must wait for that one, also before it uses or frees an output. Operations run in one
 * order, so later ones, of CPU tensors too, may wait until the stream has come so far. Without a
 * driver: HVD_ERR_UNSUPPORTED.
 */

/* output = postscale * reduce(prescale * input of every rank). Same shape everywhere. In place
 * allowed. */
HVD_API hvd_status hvd_allreduce_async(hvd_context *context, const hvd_tensor *input,
                                       const hvd_tensor *output, const hvd_op_options *options,
                                       hvd_handle **out_handle, hvd_error *error);

/* Several tensors as one operation with one handle: none starts before all are ready on every rank.
   dtypes may differ. `outputs` may be NULL, else `count` tensors. */
HVD_API hvd_status hvd_grouped_allreduce_async(hvd_context *context, const hvd_tensor *inputs,
                                               const hvd_tensor *outputs, size_t count,
                                               const hvd_op_options *options,
                                               hvd_handle **out_handle, hvd_error *error);

/* output = inputs of all ranks, one after another along dimension 0, which may differ per rank; the
   others are equal. A scalar counts as one row of one element. A given output must have exactly the
   total size. In place: input->data == output->data + own offset. */
HVD_API hvd_status hvd_allgatherv_async(hvd_context *context, const hvd_tensor *input,
                                        const hvd_tensor *output, const hvd_op_options *options,
                                        hvd_handle **out_handle, hvd_error *error);
HVD_API hvd_status hvd_grouped_allgatherv_async(hvd_context *context, const hvd_tensor *inputs,
                                                const hvd_tensor *outputs, size_t count,
                                                const hvd_op_options *options,
                                                hvd_handle **out_handle, hvd_error *error);

/* output = input of rank options->root, everywhere. Same shape everywhere; `input` of other ranks
   gives shape and dtype and its data is not read. In place allowed. */
HVD_API hvd_status hvd_broadcast_async(hvd_context *context, const hvd_tensor *input,
                                       const hvd_tensor *output, const hvd_op_options *options,
                                       hvd_handle **out_handle, hvd_error *error);

/* send_splits[i] rows (of dimension 0) of input go to the i-th rank of the set; NULL: equal parts,
   dimension 0 must divide. Their sum may be smaller than dimension 0; rows beyond it are not sent.
   output = rows received, in rank order. */
HVD_API hvd_status hvd_alltoallv_async(hvd_context *context, const hvd_tensor *input,
                                       const int64_t *send_splits, const hvd_tensor *output,
                                       const hvd_op_options *options, hvd_handle **out_handle,
                                       hvd_error *error);

/* Reduction as in allreduce, then dimension 0 (D rows) is dealt out: the i-th of n ranks gets D/n
   rows, and one more if i < D mod n, in rank order. Sum, Average, Min, Max, Product. */
HVD_API hvd_status hvd_reducescatter_async(hvd_context *context, const hvd_tensor *input,
                                           const hvd_tensor *output, const hvd_op_options *options,
                                           hvd_handle **out_handle, hvd_error *error);
HVD_API hvd_status hvd_grouped_reducescatter_async(hvd_context *context, const hvd_tensor *inputs,
                                                   const hvd_tensor *outputs, size_t count,
                                                   const hvd_op_options *options,
                                                   hvd_handle **out_handle, hvd_error *error);

/* On rank options->root: output = inputs of all ranks, one after another along dimension 0, which
   may differ per rank; the others are equal. A scalar counts as one row of one element. On the
   other ranks the output has no rows. A given output must have exactly the size of the result. Not
   in place. */
HVD_API hvd_status hvd_gatherv_async(hvd_context *context, const hvd_tensor *input,
                                     const hvd_tensor *output, const hvd_op_options *options,
                                     hvd_handle **out_handle, hvd_error *error);

/* Completes on no rank before every rank of the set has called it, or has joined. */
HVD_API hvd_status hvd_barrier_async(hvd_context *context, const hvd_op_options *options,
                                     hvd_handle **out_handle, hvd_error *error);

/* This rank has no more data: until every rank of the set has joined it takes part in allreduces of
   the others without contributing (sums get nothing from it; Average still divides by the size of
   the set). A barrier is for the others only. All else, making and destroying process sets too,
   fails with HVD_ERR_MISMATCH on the ranks that call it meanwhile: "allgather "x": not possible
   after rank 1 has joined". Completes when all have joined. */
HVD_API hvd_status hvd_join_async(hvd_context *context, const hvd_op_options *options,
                                  hvd_handle **out_handle, hvd_error *error);

/*
 * A burst: what is submitted to the context between the two calls is announced to the other ranks
 * together, by the end of the burst at the latest. For many small operations in a row, which are
 * else announced one by one. Each remains an operation with its own name and handle, and other
 * ranks need not make the same bursts. Bursts nest and may come from several threads: the end is
 * when none is open any more. Waiting, testing and hvd_handle_then work as ever and announce what
 * there is; operations of which nobody asks, also those of other threads, may stand still until the
 * end. An end without a beginning is HVD_ERR_INVALID_STATE.
 */
HVD_API hvd_status hvd_burst_begin(hvd_context *context, hvd_error *error);
HVD_API hvd_status hvd_burst_end(hvd_context *context, hvd_error *error);

/* ---- 10. Handles ----------------------------------------------------------------------------- */

/* Waits at most timeout_ns (negative: for ever). HVD_PENDING if the time ran out; the operation
   lives on. Otherwise the operation's own result, every time it is asked. */
HVD_API hvd_status hvd_wait(hvd_handle *handle, int64_t timeout_ns, hvd_error *error);

/* The same without waiting; also lets the library make progress. */
HVD_API hvd_status hvd_test(hvd_handle *handle, hvd_error *error);

/* Called exactly once when the operation has ended, also by shutdown, also if it has ended already;
   always on the context's callback thread. The handle is valid inside the callback even if it was
   freed. One per handle. */
typedef void (*hvd_completion_fn)(void *user_data, hvd_handle *handle, hvd_status status);
HVD_API hvd_status hvd_handle_then(hvd_handle *handle, hvd_completion_fn fn, void *user_data,
                                   hvd_error *error);

/* Number of results: 1, or the count of a grouped operation; 0 for barrier and join. */
HVD_API size_t hvd_handle_output_count(const hvd_handle *handle);

/* The index-th result of an operation that has succeeded. data and shape stay valid until
   hvd_handle_free (data: of the caller's own output if one was given). */
HVD_API hvd_status hvd_handle_output(hvd_handle *handle, size_t index, hvd_tensor *out,
                                     hvd_error *error);

/* alltoall, gather: rows received from each rank of the set; same size protocol as
 * hvd_process_set_ranks. */
HVD_API hvd_status hvd_handle_received_splits(hvd_handle *handle, int64_t *splits,
                                              size_t *split_count, hvd_error *error);

/* join: the rank that joined last. */
HVD_API hvd_status hvd_handle_last_joined_rank(hvd_handle *handle, int32_t *rank, hvd_error *error);

/* Gives the handle back, at any time: an operation that has not ended goes on, because other ranks
   need it; its buffers must stay valid until then. NULL is allowed. */
HVD_API void hvd_handle_free(hvd_handle *handle);

/* A file descriptor that is readable while completed handles wait for hvd_completions_pop: for
   event loops and for runtimes that must not be called from foreign threads. From the first call
   on, every operation submitted later is queued there when it ends. The descriptor belongs to the
   context. */
HVD_API hvd_status hvd_completions_fd(hvd_context *context, int32_t *fd, hvd_error *error);

/* The next completed handle, or NULL. The same pointer that the submit call gave out, with a
   reference of its own: free it once more with hvd_handle_free. */
HVD_API hvd_handle *hvd_completions_pop(hvd_context *context);

/* ---- 11. Options ----------------------------------------------------------------------------- */

/* The table of settings; index from 0 until hvd_option_name returns NULL. Each can be given to
   hvd_init and as an environment variable: HOROVOD_ and the name in upper case. */
HVD_API const char *hvd_option_name(size_t index);
HVD_API const char *hvd_option_default(size_t index);
HVD_API const char *hvd_option_help(size_t index);

/* The value in force. *size is the capacity on entry and the bytes needed, with the NUL, on return;
   value NULL asks for the size only; too little room is HVD_ERR_INVALID_ARGUMENT. */
HVD_API hvd_status hvd_option_get(hvd_context *context, const char *name, char *value, size_t *size,
                                  hvd_error *error);

/* Changes an option that may change while running (its help says "at run time"); others:
   HVD_ERR_INVALID_STATE. Affects this rank only. */
HVD_API hvd_status hvd_option_set(hvd_context *context, const char *name, const char *value,
                                  hvd_error *error);

/* ---- 12. Metrics ----------------------------------------------------------------------------- */

/* Frozen: appears in arrays. */
typedef struct hvd_metric {
  const char *name; /* static */
  const char *unit; /* static: "1", "bytes", "ns" */
  double value;
  uint64_t reserved;
} hvd_metric;

/* All counters of this rank since hvd_init; same size protocol as hvd_process_set_ranks. */
HVD_API hvd_status hvd_metrics_snapshot(hvd_context *context, hvd_metric *out, size_t *metric_count,
                                        hvd_error *error);

/* How often which values were seen. buckets[i] counts those of at most 2^i in the unit that no
   bucket before counts; the last one counts all the rest. Frozen: appears in arrays. */
typedef struct hvd_histogram {
  const char *name;     /* static */
  const char *unit;     /* static: "1", "bytes", "ns" */
  uint64_t value_count; /* of all buckets */
  uint64_t sum;         /* of all values, in the unit */
  uint64_t buckets[64];
} hvd_histogram;

/* All histograms of this rank since hvd_init; same size protocol as hvd_process_set_ranks. They
   are filled also if the option flight_recorder is 0. */
HVD_API hvd_status hvd_histograms_snapshot(hvd_context *context, hvd_histogram *out,
                                           size_t *histogram_count, hvd_error *error);

/* What the metric or histogram of that name tells, in a line of English. Static; NULL for an
   unknown name. */
HVD_API const char *hvd_metric_help(const char *name);

/* ---- 13. The flight recorder ----------------------------------------------------------------- */

/* An operation of this rank. Times are nanoseconds of CLOCK_MONOTONIC, 0 where the operation has
   not come so far. Durations are of the whole group of operations with which it ran; begun to ended
   is waited, moved, reduced and copied in sum. Frozen: appears in arrays. */
typedef struct hvd_record {
  uint64_t number;     /* 1, 2, ... in the order in which operations ended here; 0: in flight */
  uint64_t use;        /* the same on all members; 0: the members have not come together */
  const char *kind;    /* static: "allreduce", ... */
  char name[128];      /* with a NUL; a name that is too long lacks its middle */
  int32_t process_set; /* id */
  hvd_status status;   /* HVD_PENDING in flight */
  int32_t dtype;       /* of the first tensor; -1: there is none */
  int32_t reduce_op;   /* hvd_reduce_op; -1: the kind has none */
  uint32_t tensors;
  int32_t ndim;       /* of the first tensor */
  int32_t last_rank;  /* the rank that announced the operation last; -1: not known here */
  int32_t waited_for; /* the rank for which the group waited longest; -1: none, or not known */
  int64_t shape[4];   /* the first tensor's first dimensions */
  uint64_t bytes;     /* of this rank's inputs */
  uint64_t group;     /* the same for the operations of a group; 0: ran alone with its messages */
  uint64_t group_bytes;
  uint64_t group_operations;
  int64_t spread; /* ns from the first rank's announcement to the last one's */
  int64_t submitted;
  int64_t agreed; /* this rank learned that all ranks are there */
  int64_t begun;  /* its data began to move */
  int64_t ended;
  int64_t waited;  /* ns in which nothing could be done until another rank acted */
  int64_t moved;   /* ns for all the rest, such as the network */
  int64_t reduced; /* ns in which tensors were put together */
  int64_t copied;  /* ns in which bytes were copied within this host's memory */
} hvd_record;

/* The last operations of this rank: up to 4096 that have ended, from number `after` + 1 on, oldest
   first, then those in flight. With `out` NULL *record_count becomes their number; otherwise it is
   the capacity on entry and how many were written on return, and with little room the newest are
   left out. May be called at any time by any thread, also while the engine stands still.
   HVD_ERR_INVALID_STATE if the option flight_recorder is 0. */
HVD_API hvd_status hvd_records_snapshot(hvd_context *context, uint64_t after, hvd_record *out,
                                        size_t *record_count, hvd_error *error);

/* When the members of a set announced the operation with that `use`, in the order of
   hvd_process_set_ranks, 0 for a rank that has not; same size protocol. Known to the lowest rank of
   the set, for the last 4096 operations (fewer in sets of more than 32 ranks); otherwise
   HVD_ERR_NOT_FOUND. */
HVD_API hvd_status hvd_record_arrivals(const hvd_process_set *set, uint64_t use, int64_t *times,
                                       size_t *time_count, hvd_error *error);

/* ---- 14. The timeline ------------------------------------------------------------------------ */

/* Writes the operations that this rank submits from now on to a file in Chrome's trace format: rank
   0 to `path`, rank 1 of "folder/name.json" to "folder/name.rank1.json", and so on. An existing
   file is emptied. A file that this context is writing ends; the same one goes on as it is.
   `mark_cycles` other than 0 adds an event for each group of operations that run together. Concerns
   the calling rank only. The file is whole JSON at every moment; operations appear in it up to 50
   ms after their end. HVD_ERR_INVALID_ARGUMENT, with the reason in sys_errno, if the file cannot be
   written; HVD_ERR_INVALID_STATE if the option flight_recorder is 0. */
HVD_API hvd_status hvd_timeline_start(hvd_context *context, const char *path, int32_t mark_cycles,
                                      hvd_error *error);

/* Ends the file, with all operations that have ended; hvd_shutdown and hvd_context_free do so, too.
   HVD_OK if there is none. HVD_ERR_INVALID_STATE if events could not be written, which leaves whole
   JSON. */
HVD_API hvd_status hvd_timeline_stop(hvd_context *context, hvd_error *error);

#ifdef __cplusplus
}
#endif
#endif
