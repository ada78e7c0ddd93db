/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libhvd as pointers, found by dlsym. libhvdjni is not linked against libhvd: which file that is, is known at
 * run time only, and System.load would refuse it to a second class loader. A function of hvd.h that is missing here fails the
 * link, which allows no undefined symbol.
 */
#ifndef HVD_JNI_TABLE_H
#define HVD_JNI_TABLE_H

#include "hvd/hvd.h"

/* One macro of many words is an expression to the formatter. */
/* clang-format off */
#define HVD_FUNCTIONS(X) \
  X(version) X(version_string) X(has_feature) \
  X(status_name) X(dtype_size) X(dtype_name) \
  X(log_to_fd) X(init) X(shutdown) X(context_free) \
  X(context_status) X(topology_get) X(process_set_world) \
  X(process_set_create) X(process_set_destroy) X(process_set_find) \
  X(process_set_free) X(process_set_id) X(process_set_rank) \
  X(process_set_size) X(process_set_ranks) X(process_set_ids) \
  X(allreduce_async) X(grouped_allreduce_async) X(allgatherv_async) \
  X(grouped_allgatherv_async) X(broadcast_async) X(alltoallv_async) \
  X(reducescatter_async) X(grouped_reducescatter_async) X(barrier_async) \
  X(join_async) X(burst_begin) X(burst_end) X(wait) X(test) \
  X(handle_then) X(handle_output_count) X(handle_output) \
  X(handle_received_splits) X(handle_last_joined_rank) X(handle_free) \
  X(completions_fd) X(completions_pop) X(option_name) \
  X(option_default) X(option_help) X(option_get) \
  X(option_set) X(metrics_snapshot)
/* clang-format on */

#define HVD_POINTER(function) __typeof__(&hvd_##function) function;
struct hvd_table {
  HVD_FUNCTIONS(HVD_POINTER)
};
#undef HVD_POINTER

/* Filled by table_open, once. */
extern struct hvd_table hvd_table;

#define hvd_version (*hvd_table.version)
#define hvd_version_string (*hvd_table.version_string)
#define hvd_has_feature (*hvd_table.has_feature)
#define hvd_status_name (*hvd_table.status_name)
#define hvd_dtype_size (*hvd_table.dtype_size)
#define hvd_dtype_name (*hvd_table.dtype_name)
#define hvd_log_to_fd (*hvd_table.log_to_fd)
#define hvd_init (*hvd_table.init)
#define hvd_shutdown (*hvd_table.shutdown)
#define hvd_context_free (*hvd_table.context_free)
#define hvd_context_status (*hvd_table.context_status)
#define hvd_topology_get (*hvd_table.topology_get)
#define hvd_process_set_world (*hvd_table.process_set_world)
#define hvd_process_set_create (*hvd_table.process_set_create)
#define hvd_process_set_destroy (*hvd_table.process_set_destroy)
#define hvd_process_set_find (*hvd_table.process_set_find)
#define hvd_process_set_free (*hvd_table.process_set_free)
#define hvd_process_set_id (*hvd_table.process_set_id)
#define hvd_process_set_rank (*hvd_table.process_set_rank)
#define hvd_process_set_size (*hvd_table.process_set_size)
#define hvd_process_set_ranks (*hvd_table.process_set_ranks)
#define hvd_process_set_ids (*hvd_table.process_set_ids)
#define hvd_allreduce_async (*hvd_table.allreduce_async)
#define hvd_grouped_allreduce_async (*hvd_table.grouped_allreduce_async)
#define hvd_allgatherv_async (*hvd_table.allgatherv_async)
#define hvd_grouped_allgatherv_async (*hvd_table.grouped_allgatherv_async)
#define hvd_broadcast_async (*hvd_table.broadcast_async)
#define hvd_alltoallv_async (*hvd_table.alltoallv_async)
#define hvd_reducescatter_async (*hvd_table.reducescatter_async)
#define hvd_grouped_reducescatter_async (*hvd_table.grouped_reducescatter_async)
#define hvd_barrier_async (*hvd_table.barrier_async)
#define hvd_join_async (*hvd_table.join_async)
#define hvd_burst_begin (*hvd_table.burst_begin)
#define hvd_burst_end (*hvd_table.burst_end)
#define hvd_wait (*hvd_table.wait)
#define hvd_test (*hvd_table.test)
#define hvd_handle_then (*hvd_table.handle_then)
#define hvd_handle_output_count (*hvd_table.handle_output_count)
#define hvd_handle_output (*hvd_table.handle_output)
#define hvd_handle_received_splits (*hvd_table.handle_received_splits)
#define hvd_handle_last_joined_rank (*hvd_table.handle_last_joined_rank)
#define hvd_handle_free (*hvd_table.handle_free)
#define hvd_completions_fd (*hvd_table.completions_fd)
#define hvd_completions_pop (*hvd_table.completions_pop)
#define hvd_option_name (*hvd_table.option_name)
#define hvd_option_default (*hvd_table.option_default)
#define hvd_option_help (*hvd_table.option_help)
#define hvd_option_get (*hvd_table.option_get)
#define hvd_option_set (*hvd_table.option_set)
#define hvd_metrics_snapshot (*hvd_table.metrics_snapshot)

#endif
