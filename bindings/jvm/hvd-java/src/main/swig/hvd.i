/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native layer for Java, made from hvd.h when the binding is built: one static method per function, one constant per number, and
 * the
 * sizes and offsets of the structs as the C compiler sees them.
 *
 * Every pointer is an address in a long. Structs are written by Java at these offsets, into memory outside of its heap, so a
 * call
 * makes no object and copies nothing. That is unsafe, and so the classes stay inside the package.
 */
%module Raw

%pragma(java) moduleclassmodifiers="final class"
%pragma(java) jniclassclassmodifiers="final class"

%{
#include <stddef.h>

#include "events.h"
#include "table.h"
%}

%include <stdint.i>
/* Java has no unsigned long; what is one in the header never comes near its sign. */
%apply long long { uint64_t };

/* Pointers, opaque or not, are addresses. */
%typemap(jni) SWIGTYPE *, SWIGTYPE **, char *, const char *, void * "jlong"
%typemap(jtype) SWIGTYPE *, SWIGTYPE **, char *, const char *, void * "long"
%typemap(jstype) SWIGTYPE *, SWIGTYPE **, char *, const char *, void * "long"
%typemap(javain) SWIGTYPE *, SWIGTYPE **, char *, const char *, void * "$javainput"
%typemap(javaout) SWIGTYPE *, SWIGTYPE **, char *, const char *, void * { return $jnicall; }
%typemap(in) SWIGTYPE *, SWIGTYPE **, char *, const char *, void * "$1 = ($1_ltype)(intptr_t)$input;"
%typemap(out) SWIGTYPE *, SWIGTYPE **, char *, const char *, void * "$result = (jlong)(intptr_t)$1;"
%typemap(freearg) char *, const char * ""
%typemap(jni) hvd_completion_fn "jlong"
%typemap(jtype) hvd_completion_fn "long"
%typemap(jstype) hvd_completion_fn "long"
%typemap(javain) hvd_completion_fn "$javainput"
%typemap(in) hvd_completion_fn "$1 = (hvd_completion_fn)(intptr_t)$input;"

/* Numbers of the header are constants of Java, known to its compiler. */
%javaconst(1);

%ignore hvd_error;
%ignore hvd_tensor;
%ignore hvd_store;
%ignore hvd_option;
%ignore hvd_init_options;
%ignore hvd_topology;
%ignore hvd_membership;
%ignore hvd_op_options;
%ignore hvd_metric;
%ignore hvd_histogram;
%ignore hvd_record;
%ignore HVD_API;
%ignore HVD_H;
%ignore HVD_VERSION_H;
%ignore HVD_VERSION_STRING;
%rename("$ignore", regextarget=1) "^HVD_[A-Z_]*_INIT$";

#define __attribute__(x)
%include "hvd/version.h"
%include "hvd/hvd.h"

%javaconst(0);

%constant int SIZEOF_hvd_error = sizeof(hvd_error);
%constant int OFFSETOF_hvd_error_struct_size = offsetof(hvd_error, struct_size);
%constant int OFFSETOF_hvd_error_status = offsetof(hvd_error, status);
%constant int OFFSETOF_hvd_error_rank = offsetof(hvd_error, rank);
%constant int OFFSETOF_hvd_error_sys_errno = offsetof(hvd_error, sys_errno);
%constant int OFFSETOF_hvd_error_message = offsetof(hvd_error, message);
%constant int SIZEOF_hvd_histogram = sizeof(hvd_histogram);
%constant int OFFSETOF_hvd_histogram_name = offsetof(hvd_histogram, name);
%constant int OFFSETOF_hvd_histogram_unit = offsetof(hvd_histogram, unit);
%constant int OFFSETOF_hvd_histogram_value_count = offsetof(hvd_histogram, value_count);
%constant int OFFSETOF_hvd_histogram_sum = offsetof(hvd_histogram, sum);
%constant int OFFSETOF_hvd_histogram_buckets = offsetof(hvd_histogram, buckets);
%constant int SIZEOF_hvd_init_options = sizeof(hvd_init_options);
%constant int OFFSETOF_hvd_init_options_struct_size = offsetof(hvd_init_options, struct_size);
%constant int OFFSETOF_hvd_init_options_rank = offsetof(hvd_init_options, rank);
%constant int OFFSETOF_hvd_init_options_size = offsetof(hvd_init_options, size);
%constant int OFFSETOF_hvd_init_options_flags = offsetof(hvd_init_options, flags);
%constant int OFFSETOF_hvd_init_options_rendezvous = offsetof(hvd_init_options, rendezvous);
%constant int OFFSETOF_hvd_init_options_store = offsetof(hvd_init_options, store);
%constant int OFFSETOF_hvd_init_options_timeout_ns = offsetof(hvd_init_options, timeout_ns);
%constant int OFFSETOF_hvd_init_options_options = offsetof(hvd_init_options, options);
%constant int OFFSETOF_hvd_init_options_option_count = offsetof(hvd_init_options, option_count);
%constant int OFFSETOF_hvd_init_options_log_fn = offsetof(hvd_init_options, log_fn);
%constant int OFFSETOF_hvd_init_options_log_user_data = offsetof(hvd_init_options, log_user_data);
%constant int SIZEOF_hvd_metric = sizeof(hvd_metric);
%constant int OFFSETOF_hvd_metric_name = offsetof(hvd_metric, name);
%constant int OFFSETOF_hvd_metric_unit = offsetof(hvd_metric, unit);
%constant int OFFSETOF_hvd_metric_value = offsetof(hvd_metric, value);
%constant int OFFSETOF_hvd_metric_reserved = offsetof(hvd_metric, reserved);
%constant int SIZEOF_hvd_op_options = sizeof(hvd_op_options);
%constant int OFFSETOF_hvd_op_options_struct_size = offsetof(hvd_op_options, struct_size);
%constant int OFFSETOF_hvd_op_options_priority = offsetof(hvd_op_options, priority);
%constant int OFFSETOF_hvd_op_options_name = offsetof(hvd_op_options, name);
%constant int OFFSETOF_hvd_op_options_set = offsetof(hvd_op_options, set);
%constant int OFFSETOF_hvd_op_options_timeout_ns = offsetof(hvd_op_options, timeout_ns);
%constant int OFFSETOF_hvd_op_options_reduce_op = offsetof(hvd_op_options, reduce_op);
%constant int OFFSETOF_hvd_op_options_root = offsetof(hvd_op_options, root);
%constant int OFFSETOF_hvd_op_options_prescale = offsetof(hvd_op_options, prescale);
%constant int OFFSETOF_hvd_op_options_postscale = offsetof(hvd_op_options, postscale);
%constant int OFFSETOF_hvd_op_options_stream = offsetof(hvd_op_options, stream);
%constant int SIZEOF_hvd_option = sizeof(hvd_option);
%constant int OFFSETOF_hvd_option_name = offsetof(hvd_option, name);
%constant int OFFSETOF_hvd_option_value = offsetof(hvd_option, value);
%constant int SIZEOF_hvd_record = sizeof(hvd_record);
%constant int OFFSETOF_hvd_record_number = offsetof(hvd_record, number);
%constant int OFFSETOF_hvd_record_use = offsetof(hvd_record, use);
%constant int OFFSETOF_hvd_record_kind = offsetof(hvd_record, kind);
%constant int OFFSETOF_hvd_record_name = offsetof(hvd_record, name);
%constant int OFFSETOF_hvd_record_process_set = offsetof(hvd_record, process_set);
%constant int OFFSETOF_hvd_record_status = offsetof(hvd_record, status);
%constant int OFFSETOF_hvd_record_dtype = offsetof(hvd_record, dtype);
%constant int OFFSETOF_hvd_record_reduce_op = offsetof(hvd_record, reduce_op);
%constant int OFFSETOF_hvd_record_tensors = offsetof(hvd_record, tensors);
%constant int OFFSETOF_hvd_record_ndim = offsetof(hvd_record, ndim);
%constant int OFFSETOF_hvd_record_last_rank = offsetof(hvd_record, last_rank);
%constant int OFFSETOF_hvd_record_waited_for = offsetof(hvd_record, waited_for);
%constant int OFFSETOF_hvd_record_shape = offsetof(hvd_record, shape);
%constant int OFFSETOF_hvd_record_bytes = offsetof(hvd_record, bytes);
%constant int OFFSETOF_hvd_record_group = offsetof(hvd_record, group);
%constant int OFFSETOF_hvd_record_group_bytes = offsetof(hvd_record, group_bytes);
%constant int OFFSETOF_hvd_record_group_operations = offsetof(hvd_record, group_operations);
%constant int OFFSETOF_hvd_record_spread = offsetof(hvd_record, spread);
%constant int OFFSETOF_hvd_record_submitted = offsetof(hvd_record, submitted);
%constant int OFFSETOF_hvd_record_agreed = offsetof(hvd_record, agreed);
%constant int OFFSETOF_hvd_record_begun = offsetof(hvd_record, begun);
%constant int OFFSETOF_hvd_record_ended = offsetof(hvd_record, ended);
%constant int OFFSETOF_hvd_record_waited = offsetof(hvd_record, waited);
%constant int OFFSETOF_hvd_record_moved = offsetof(hvd_record, moved);
%constant int OFFSETOF_hvd_record_reduced = offsetof(hvd_record, reduced);
%constant int OFFSETOF_hvd_record_copied = offsetof(hvd_record, copied);
%constant int SIZEOF_hvd_store = sizeof(hvd_store);
%constant int OFFSETOF_hvd_store_struct_size = offsetof(hvd_store, struct_size);
%constant int OFFSETOF_hvd_store_flags = offsetof(hvd_store, flags);
%constant int OFFSETOF_hvd_store_self = offsetof(hvd_store, self);
%constant int OFFSETOF_hvd_store_set = offsetof(hvd_store, set);
%constant int OFFSETOF_hvd_store_get = offsetof(hvd_store, get);
%constant int OFFSETOF_hvd_store_add = offsetof(hvd_store, add);
%constant int OFFSETOF_hvd_store_remove = offsetof(hvd_store, remove);
%constant int SIZEOF_hvd_tensor = sizeof(hvd_tensor);
%constant int OFFSETOF_hvd_tensor_data = offsetof(hvd_tensor, data);
%constant int OFFSETOF_hvd_tensor_shape = offsetof(hvd_tensor, shape);
%constant int OFFSETOF_hvd_tensor_ndim = offsetof(hvd_tensor, ndim);
%constant int OFFSETOF_hvd_tensor_dtype = offsetof(hvd_tensor, dtype);
%constant int OFFSETOF_hvd_tensor_device_type = offsetof(hvd_tensor, device_type);
%constant int OFFSETOF_hvd_tensor_device_id = offsetof(hvd_tensor, device_id);
%constant int OFFSETOF_hvd_tensor_reserved = offsetof(hvd_tensor, reserved);
%constant int SIZEOF_hvd_topology = sizeof(hvd_topology);
%constant int OFFSETOF_hvd_topology_struct_size = offsetof(hvd_topology, struct_size);
%constant int OFFSETOF_hvd_topology_rank = offsetof(hvd_topology, rank);
%constant int OFFSETOF_hvd_topology_size = offsetof(hvd_topology, size);
%constant int OFFSETOF_hvd_topology_local_rank = offsetof(hvd_topology, local_rank);
%constant int OFFSETOF_hvd_topology_local_size = offsetof(hvd_topology, local_size);
%constant int OFFSETOF_hvd_topology_cross_rank = offsetof(hvd_topology, cross_rank);
%constant int OFFSETOF_hvd_topology_cross_size = offsetof(hvd_topology, cross_size);
%constant int OFFSETOF_hvd_topology_homogeneous = offsetof(hvd_topology, homogeneous);
%constant int SIZEOF_hvd_membership = sizeof(hvd_membership);
%constant int OFFSETOF_hvd_membership_struct_size = offsetof(hvd_membership, struct_size);
%constant int OFFSETOF_hvd_membership_changes = offsetof(hvd_membership, changes);
%constant int OFFSETOF_hvd_membership_epoch = offsetof(hvd_membership, epoch);
%constant int OFFSETOF_hvd_membership_synchronize = offsetof(hvd_membership, synchronize);
%constant int OFFSETOF_hvd_membership_reserved = offsetof(hvd_membership, reserved);
%constant int SIZEOF_event_record = sizeof(event_record);
%constant int OFFSETOF_event_record_number = offsetof(event_record, number);
%constant int OFFSETOF_event_record_id = offsetof(event_record, id);
%constant int OFFSETOF_event_record_rank = offsetof(event_record, rank);
%constant int OFFSETOF_event_record_lost = offsetof(event_record, lost);
%constant int OFFSETOF_event_record_component = offsetof(event_record, component);
%constant int OFFSETOF_event_record_message = offsetof(event_record, message);

/* Written by hand, in table.c, memory.c and events.c. */
%native (open) jbyteArray open(jbyteArray path);
%native (address) jlong address(jobject buffer);
%native (allocate) jlong allocate(jlong size);
%native (release) void release(jlong block);
%native (copy) void copy(jlong from, jlong to, jlong size);
%native (view) jobject view(jlong address, jlong size);
%native (text) jbyteArray text(jlong address);
%native (arrayToMemory) void arrayToMemory(jobject array, jchar type, jint first, jint count, jlong to);
%native (memoryToArray) void memoryToArray(jlong from, jobject array, jchar type, jint first, jint count);
%native (queueNew) jlong queueNew();
%native (logFunction) jlong logFunction();
%native (then) jint then(jlong handle, jlong queue, jlong id, jlong error);
%native (queueNext) jint queueNext(jlong queue, jlong record);
%native (queueClose) void queueClose(jlong queue);
%native (queueFree) void queueFree(jlong queue);
