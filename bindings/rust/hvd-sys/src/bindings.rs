// SPDX-License-Identifier: Apache-2.0
// Made from hvd.h by bindgen 0.72.1; ./scripts/test rust makes it again and compares.
// Generated, so one file that is as long as the header.

pub const HVD_VERSION_MAJOR: i32 = 1;
pub const HVD_VERSION_MINOR: i32 = 0;
pub const HVD_VERSION_PATCH: i32 = 0;
pub const HVD_VERSION_STRING: &[u8; 6] = b"1.0.0\0";
pub const HVD_VERSION: i32 = 10000;
pub const HVD_OK: i32 = 0;
pub const HVD_PENDING: i32 = 1;
pub const HVD_ERR_INVALID_ARGUMENT: i32 = -1;
pub const HVD_ERR_INVALID_STATE: i32 = -2;
pub const HVD_ERR_NOT_FOUND: i32 = -3;
pub const HVD_ERR_ALREADY_EXISTS: i32 = -4;
pub const HVD_ERR_UNSUPPORTED: i32 = -5;
pub const HVD_ERR_VERSION: i32 = -6;
pub const HVD_ERR_OUT_OF_MEMORY: i32 = -7;
pub const HVD_ERR_WOULD_DEADLOCK: i32 = -8;
pub const HVD_ERR_MISMATCH: i32 = -20;
pub const HVD_ERR_CANCELLED: i32 = -21;
pub const HVD_ERR_TIMEOUT: i32 = -22;
pub const HVD_ERR_SET_BROKEN: i32 = -40;
pub const HVD_ERR_PEER_LOST: i32 = -60;
pub const HVD_ERR_SHUT_DOWN: i32 = -62;
pub const HVD_ERR_IO: i32 = -63;
pub const HVD_ERR_DISMISSED: i32 = -64;
pub const HVD_ERR_INTERNAL: i32 = -80;
pub const HVD_UINT8: i32 = 0;
pub const HVD_INT8: i32 = 1;
pub const HVD_UINT16: i32 = 2;
pub const HVD_INT16: i32 = 3;
pub const HVD_INT32: i32 = 4;
pub const HVD_INT64: i32 = 5;
pub const HVD_FLOAT16: i32 = 6;
pub const HVD_FLOAT32: i32 = 7;
pub const HVD_FLOAT64: i32 = 8;
pub const HVD_BOOL: i32 = 9;
pub const HVD_BFLOAT16: i32 = 10;
pub const HVD_UINT32: i32 = 11;
pub const HVD_UINT64: i32 = 12;
pub const HVD_COMPLEX64: i32 = 13;
pub const HVD_COMPLEX128: i32 = 14;
pub const HVD_BYTES: i32 = 15;
pub const HVD_COMPLEX32: i32 = 16;
pub const HVD_FLOAT8_E3M4: i32 = 17;
pub const HVD_FLOAT8_E4M3: i32 = 18;
pub const HVD_FLOAT8_E4M3B11FNUZ: i32 = 19;
pub const HVD_FLOAT8_E4M3FN: i32 = 20;
pub const HVD_FLOAT8_E4M3FNUZ: i32 = 21;
pub const HVD_FLOAT8_E5M2: i32 = 22;
pub const HVD_FLOAT8_E5M2FNUZ: i32 = 23;
pub const HVD_FLOAT8_E8M0FNU: i32 = 24;
pub const HVD_FLOAT4_E2M1FN: i32 = 25;
pub const HVD_INT2: i32 = 26;
pub const HVD_UINT2: i32 = 27;
pub const HVD_INT4: i32 = 28;
pub const HVD_UINT4: i32 = 29;
pub const HVD_AVERAGE: i32 = 0;
pub const HVD_SUM: i32 = 1;
pub const HVD_ADASUM: i32 = 2;
pub const HVD_MIN: i32 = 3;
pub const HVD_MAX: i32 = 4;
pub const HVD_PRODUCT: i32 = 5;
pub const HVD_CPU: i32 = 1;
pub const HVD_CUDA: i32 = 2;
pub const HVD_LOG_ERROR: i32 = 0;
pub const HVD_LOG_WARN: i32 = 1;
pub const HVD_LOG_INFO: i32 = 2;
pub const HVD_LOG_DEBUG: i32 = 3;
pub const HVD_LOG_TRACE: i32 = 4;
pub const HVD_MEMBERS_REMOVED: i32 = 1;
pub const HVD_MEMBERS_ADDED: i32 = 2;
pub type hvd_status = i32;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_error {
    pub struct_size: u32,
    pub status: hvd_status,
    pub rank: i32,
    pub sys_errno: i32,
    pub message: [::core::ffi::c_char; 1008usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_error"][::core::mem::size_of::<hvd_error>() - 1024usize];
    ["Alignment of hvd_error"][::core::mem::align_of::<hvd_error>() - 4usize];
    ["Offset of field: hvd_error::struct_size"][::core::mem::offset_of!(hvd_error, struct_size) - 0usize];
    ["Offset of field: hvd_error::status"][::core::mem::offset_of!(hvd_error, status) - 4usize];
    ["Offset of field: hvd_error::rank"][::core::mem::offset_of!(hvd_error, rank) - 8usize];
    ["Offset of field: hvd_error::sys_errno"][::core::mem::offset_of!(hvd_error, sys_errno) - 12usize];
    ["Offset of field: hvd_error::message"][::core::mem::offset_of!(hvd_error, message) - 16usize];
};
pub type hvd_dtype = i32;
pub type hvd_reduce_op = i32;
pub type hvd_device_type = i32;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_tensor {
    pub data: *mut ::core::ffi::c_void,
    pub shape: *const i64,
    pub ndim: i32,
    pub dtype: hvd_dtype,
    pub device_type: hvd_device_type,
    pub device_id: i32,
    pub reserved: [u64; 2usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_tensor"][::core::mem::size_of::<hvd_tensor>() - 48usize];
    ["Alignment of hvd_tensor"][::core::mem::align_of::<hvd_tensor>() - 8usize];
    ["Offset of field: hvd_tensor::data"][::core::mem::offset_of!(hvd_tensor, data) - 0usize];
    ["Offset of field: hvd_tensor::shape"][::core::mem::offset_of!(hvd_tensor, shape) - 8usize];
    ["Offset of field: hvd_tensor::ndim"][::core::mem::offset_of!(hvd_tensor, ndim) - 16usize];
    ["Offset of field: hvd_tensor::dtype"][::core::mem::offset_of!(hvd_tensor, dtype) - 20usize];
    ["Offset of field: hvd_tensor::device_type"][::core::mem::offset_of!(hvd_tensor, device_type) - 24usize];
    ["Offset of field: hvd_tensor::device_id"][::core::mem::offset_of!(hvd_tensor, device_id) - 28usize];
    ["Offset of field: hvd_tensor::reserved"][::core::mem::offset_of!(hvd_tensor, reserved) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_context {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_process_set {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_handle {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_store {
    pub struct_size: u32,
    pub flags: u32,
    pub self_: *mut ::core::ffi::c_void,
    pub set: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut ::core::ffi::c_void,
            key: *const ::core::ffi::c_char,
            value: *const ::core::ffi::c_void,
            size: usize,
        ) -> hvd_status,
    >,
    pub get: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut ::core::ffi::c_void,
            key: *const ::core::ffi::c_char,
            timeout_ns: i64,
            value: *mut ::core::ffi::c_void,
            size: *mut usize,
        ) -> hvd_status,
    >,
    pub add: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut ::core::ffi::c_void,
            key: *const ::core::ffi::c_char,
            delta: i64,
            result: *mut i64,
        ) -> hvd_status,
    >,
    pub remove: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut ::core::ffi::c_void, key: *const ::core::ffi::c_char) -> hvd_status,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_store"][::core::mem::size_of::<hvd_store>() - 48usize];
    ["Alignment of hvd_store"][::core::mem::align_of::<hvd_store>() - 8usize];
    ["Offset of field: hvd_store::struct_size"][::core::mem::offset_of!(hvd_store, struct_size) - 0usize];
    ["Offset of field: hvd_store::flags"][::core::mem::offset_of!(hvd_store, flags) - 4usize];
    ["Offset of field: hvd_store::self_"][::core::mem::offset_of!(hvd_store, self_) - 8usize];
    ["Offset of field: hvd_store::set"][::core::mem::offset_of!(hvd_store, set) - 16usize];
    ["Offset of field: hvd_store::get"][::core::mem::offset_of!(hvd_store, get) - 24usize];
    ["Offset of field: hvd_store::add"][::core::mem::offset_of!(hvd_store, add) - 32usize];
    ["Offset of field: hvd_store::remove"][::core::mem::offset_of!(hvd_store, remove) - 40usize];
};
pub type hvd_log_level = i32;
pub type hvd_log_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user_data: *mut ::core::ffi::c_void,
        level: hvd_log_level,
        rank: i32,
        component: *const ::core::ffi::c_char,
        message: *const ::core::ffi::c_char,
    ),
>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_option {
    pub name: *const ::core::ffi::c_char,
    pub value: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_option"][::core::mem::size_of::<hvd_option>() - 16usize];
    ["Alignment of hvd_option"][::core::mem::align_of::<hvd_option>() - 8usize];
    ["Offset of field: hvd_option::name"][::core::mem::offset_of!(hvd_option, name) - 0usize];
    ["Offset of field: hvd_option::value"][::core::mem::offset_of!(hvd_option, value) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_init_options {
    pub struct_size: u32,
    pub rank: i32,
    pub size: i32,
    pub flags: i32,
    pub rendezvous: *const ::core::ffi::c_char,
    pub store: *const hvd_store,
    pub timeout_ns: i64,
    pub options: *const hvd_option,
    pub option_count: usize,
    pub log_fn: hvd_log_fn,
    pub log_user_data: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_init_options"][::core::mem::size_of::<hvd_init_options>() - 72usize];
    ["Alignment of hvd_init_options"][::core::mem::align_of::<hvd_init_options>() - 8usize];
    ["Offset of field: hvd_init_options::struct_size"][::core::mem::offset_of!(hvd_init_options, struct_size) - 0usize];
    ["Offset of field: hvd_init_options::rank"][::core::mem::offset_of!(hvd_init_options, rank) - 4usize];
    ["Offset of field: hvd_init_options::size"][::core::mem::offset_of!(hvd_init_options, size) - 8usize];
    ["Offset of field: hvd_init_options::flags"][::core::mem::offset_of!(hvd_init_options, flags) - 12usize];
    ["Offset of field: hvd_init_options::rendezvous"][::core::mem::offset_of!(hvd_init_options, rendezvous) - 16usize];
    ["Offset of field: hvd_init_options::store"][::core::mem::offset_of!(hvd_init_options, store) - 24usize];
    ["Offset of field: hvd_init_options::timeout_ns"][::core::mem::offset_of!(hvd_init_options, timeout_ns) - 32usize];
    ["Offset of field: hvd_init_options::options"][::core::mem::offset_of!(hvd_init_options, options) - 40usize];
    ["Offset of field: hvd_init_options::option_count"][::core::mem::offset_of!(hvd_init_options, option_count) - 48usize];
    ["Offset of field: hvd_init_options::log_fn"][::core::mem::offset_of!(hvd_init_options, log_fn) - 56usize];
    ["Offset of field: hvd_init_options::log_user_data"][::core::mem::offset_of!(hvd_init_options, log_user_data) - 64usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_topology {
    pub struct_size: u32,
    pub rank: i32,
    pub size: i32,
    pub local_rank: i32,
    pub local_size: i32,
    pub cross_rank: i32,
    pub cross_size: i32,
    pub homogeneous: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_topology"][::core::mem::size_of::<hvd_topology>() - 32usize];
    ["Alignment of hvd_topology"][::core::mem::align_of::<hvd_topology>() - 4usize];
    ["Offset of field: hvd_topology::struct_size"][::core::mem::offset_of!(hvd_topology, struct_size) - 0usize];
    ["Offset of field: hvd_topology::rank"][::core::mem::offset_of!(hvd_topology, rank) - 4usize];
    ["Offset of field: hvd_topology::size"][::core::mem::offset_of!(hvd_topology, size) - 8usize];
    ["Offset of field: hvd_topology::local_rank"][::core::mem::offset_of!(hvd_topology, local_rank) - 12usize];
    ["Offset of field: hvd_topology::local_size"][::core::mem::offset_of!(hvd_topology, local_size) - 16usize];
    ["Offset of field: hvd_topology::cross_rank"][::core::mem::offset_of!(hvd_topology, cross_rank) - 20usize];
    ["Offset of field: hvd_topology::cross_size"][::core::mem::offset_of!(hvd_topology, cross_size) - 24usize];
    ["Offset of field: hvd_topology::homogeneous"][::core::mem::offset_of!(hvd_topology, homogeneous) - 28usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_membership {
    pub struct_size: u32,
    pub changes: u32,
    pub epoch: i64,
    pub synchronize: i32,
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_membership"][::core::mem::size_of::<hvd_membership>() - 24usize];
    ["Alignment of hvd_membership"][::core::mem::align_of::<hvd_membership>() - 8usize];
    ["Offset of field: hvd_membership::struct_size"][::core::mem::offset_of!(hvd_membership, struct_size) - 0usize];
    ["Offset of field: hvd_membership::changes"][::core::mem::offset_of!(hvd_membership, changes) - 4usize];
    ["Offset of field: hvd_membership::epoch"][::core::mem::offset_of!(hvd_membership, epoch) - 8usize];
    ["Offset of field: hvd_membership::synchronize"][::core::mem::offset_of!(hvd_membership, synchronize) - 16usize];
    ["Offset of field: hvd_membership::reserved"][::core::mem::offset_of!(hvd_membership, reserved) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_op_options {
    pub struct_size: u32,
    pub priority: i32,
    pub name: *const ::core::ffi::c_char,
    pub set: *mut hvd_process_set,
    pub timeout_ns: i64,
    pub reduce_op: hvd_reduce_op,
    pub root: i32,
    pub prescale: f64,
    pub postscale: f64,
    pub stream: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_op_options"][::core::mem::size_of::<hvd_op_options>() - 64usize];
    ["Alignment of hvd_op_options"][::core::mem::align_of::<hvd_op_options>() - 8usize];
    ["Offset of field: hvd_op_options::struct_size"][::core::mem::offset_of!(hvd_op_options, struct_size) - 0usize];
    ["Offset of field: hvd_op_options::priority"][::core::mem::offset_of!(hvd_op_options, priority) - 4usize];
    ["Offset of field: hvd_op_options::name"][::core::mem::offset_of!(hvd_op_options, name) - 8usize];
    ["Offset of field: hvd_op_options::set"][::core::mem::offset_of!(hvd_op_options, set) - 16usize];
    ["Offset of field: hvd_op_options::timeout_ns"][::core::mem::offset_of!(hvd_op_options, timeout_ns) - 24usize];
    ["Offset of field: hvd_op_options::reduce_op"][::core::mem::offset_of!(hvd_op_options, reduce_op) - 32usize];
    ["Offset of field: hvd_op_options::root"][::core::mem::offset_of!(hvd_op_options, root) - 36usize];
    ["Offset of field: hvd_op_options::prescale"][::core::mem::offset_of!(hvd_op_options, prescale) - 40usize];
    ["Offset of field: hvd_op_options::postscale"][::core::mem::offset_of!(hvd_op_options, postscale) - 48usize];
    ["Offset of field: hvd_op_options::stream"][::core::mem::offset_of!(hvd_op_options, stream) - 56usize];
};
pub type hvd_completion_fn = ::core::option::Option<
    unsafe extern "C" fn(user_data: *mut ::core::ffi::c_void, handle: *mut hvd_handle, status: hvd_status),
>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_metric {
    pub name: *const ::core::ffi::c_char,
    pub unit: *const ::core::ffi::c_char,
    pub value: f64,
    pub reserved: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_metric"][::core::mem::size_of::<hvd_metric>() - 32usize];
    ["Alignment of hvd_metric"][::core::mem::align_of::<hvd_metric>() - 8usize];
    ["Offset of field: hvd_metric::name"][::core::mem::offset_of!(hvd_metric, name) - 0usize];
    ["Offset of field: hvd_metric::unit"][::core::mem::offset_of!(hvd_metric, unit) - 8usize];
    ["Offset of field: hvd_metric::value"][::core::mem::offset_of!(hvd_metric, value) - 16usize];
    ["Offset of field: hvd_metric::reserved"][::core::mem::offset_of!(hvd_metric, reserved) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_histogram {
    pub name: *const ::core::ffi::c_char,
    pub unit: *const ::core::ffi::c_char,
    pub value_count: u64,
    pub sum: u64,
    pub buckets: [u64; 64usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_histogram"][::core::mem::size_of::<hvd_histogram>() - 544usize];
    ["Alignment of hvd_histogram"][::core::mem::align_of::<hvd_histogram>() - 8usize];
    ["Offset of field: hvd_histogram::name"][::core::mem::offset_of!(hvd_histogram, name) - 0usize];
    ["Offset of field: hvd_histogram::unit"][::core::mem::offset_of!(hvd_histogram, unit) - 8usize];
    ["Offset of field: hvd_histogram::value_count"][::core::mem::offset_of!(hvd_histogram, value_count) - 16usize];
    ["Offset of field: hvd_histogram::sum"][::core::mem::offset_of!(hvd_histogram, sum) - 24usize];
    ["Offset of field: hvd_histogram::buckets"][::core::mem::offset_of!(hvd_histogram, buckets) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hvd_record {
    pub number: u64,
    pub use_: u64,
    pub kind: *const ::core::ffi::c_char,
    pub name: [::core::ffi::c_char; 128usize],
    pub process_set: i32,
    pub status: hvd_status,
    pub dtype: i32,
    pub reduce_op: i32,
    pub tensors: u32,
    pub ndim: i32,
    pub last_rank: i32,
    pub waited_for: i32,
    pub shape: [i64; 4usize],
    pub bytes: u64,
    pub group: u64,
    pub group_bytes: u64,
    pub group_operations: u64,
    pub spread: i64,
    pub submitted: i64,
    pub agreed: i64,
    pub begun: i64,
    pub ended: i64,
    pub waited: i64,
    pub moved: i64,
    pub reduced: i64,
    pub copied: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of hvd_record"][::core::mem::size_of::<hvd_record>() - 320usize];
    ["Alignment of hvd_record"][::core::mem::align_of::<hvd_record>() - 8usize];
    ["Offset of field: hvd_record::number"][::core::mem::offset_of!(hvd_record, number) - 0usize];
    ["Offset of field: hvd_record::use_"][::core::mem::offset_of!(hvd_record, use_) - 8usize];
    ["Offset of field: hvd_record::kind"][::core::mem::offset_of!(hvd_record, kind) - 16usize];
    ["Offset of field: hvd_record::name"][::core::mem::offset_of!(hvd_record, name) - 24usize];
    ["Offset of field: hvd_record::process_set"][::core::mem::offset_of!(hvd_record, process_set) - 152usize];
    ["Offset of field: hvd_record::status"][::core::mem::offset_of!(hvd_record, status) - 156usize];
    ["Offset of field: hvd_record::dtype"][::core::mem::offset_of!(hvd_record, dtype) - 160usize];
    ["Offset of field: hvd_record::reduce_op"][::core::mem::offset_of!(hvd_record, reduce_op) - 164usize];
    ["Offset of field: hvd_record::tensors"][::core::mem::offset_of!(hvd_record, tensors) - 168usize];
    ["Offset of field: hvd_record::ndim"][::core::mem::offset_of!(hvd_record, ndim) - 172usize];
    ["Offset of field: hvd_record::last_rank"][::core::mem::offset_of!(hvd_record, last_rank) - 176usize];
    ["Offset of field: hvd_record::waited_for"][::core::mem::offset_of!(hvd_record, waited_for) - 180usize];
    ["Offset of field: hvd_record::shape"][::core::mem::offset_of!(hvd_record, shape) - 184usize];
    ["Offset of field: hvd_record::bytes"][::core::mem::offset_of!(hvd_record, bytes) - 216usize];
    ["Offset of field: hvd_record::group"][::core::mem::offset_of!(hvd_record, group) - 224usize];
    ["Offset of field: hvd_record::group_bytes"][::core::mem::offset_of!(hvd_record, group_bytes) - 232usize];
    ["Offset of field: hvd_record::group_operations"][::core::mem::offset_of!(hvd_record, group_operations) - 240usize];
    ["Offset of field: hvd_record::spread"][::core::mem::offset_of!(hvd_record, spread) - 248usize];
    ["Offset of field: hvd_record::submitted"][::core::mem::offset_of!(hvd_record, submitted) - 256usize];
    ["Offset of field: hvd_record::agreed"][::core::mem::offset_of!(hvd_record, agreed) - 264usize];
    ["Offset of field: hvd_record::begun"][::core::mem::offset_of!(hvd_record, begun) - 272usize];
    ["Offset of field: hvd_record::ended"][::core::mem::offset_of!(hvd_record, ended) - 280usize];
    ["Offset of field: hvd_record::waited"][::core::mem::offset_of!(hvd_record, waited) - 288usize];
    ["Offset of field: hvd_record::moved"][::core::mem::offset_of!(hvd_record, moved) - 296usize];
    ["Offset of field: hvd_record::reduced"][::core::mem::offset_of!(hvd_record, reduced) - 304usize];
    ["Offset of field: hvd_record::copied"][::core::mem::offset_of!(hvd_record, copied) - 312usize];
};
extern "C" {
    pub fn hvd_version() -> u32;
    pub fn hvd_version_string() -> *const ::core::ffi::c_char;
    pub fn hvd_has_feature(name: *const ::core::ffi::c_char) -> i32;
    pub fn hvd_status_name(status: hvd_status) -> *const ::core::ffi::c_char;
    pub fn hvd_dtype_size(dtype: hvd_dtype) -> usize;
    pub fn hvd_dtype_name(dtype: hvd_dtype) -> *const ::core::ffi::c_char;
    pub fn hvd_log_to_fd(
        user_data: *mut ::core::ffi::c_void,
        level: hvd_log_level,
        rank: i32,
        component: *const ::core::ffi::c_char,
        message: *const ::core::ffi::c_char,
    );
    pub fn hvd_init(options: *const hvd_init_options, out_context: *mut *mut hvd_context, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_shutdown(context: *mut hvd_context, timeout_ns: i64, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_context_free(context: *mut hvd_context);
    pub fn hvd_context_status(context: *mut hvd_context, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_topology_get(context: *mut hvd_context, out: *mut hvd_topology, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_membership_get(context: *mut hvd_context, out: *mut hvd_membership, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_membership_leave(context: *mut hvd_context, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_process_set_world(context: *mut hvd_context) -> *mut hvd_process_set;
    pub fn hvd_process_set_create(
        context: *mut hvd_context,
        ranks: *const i32,
        rank_count: usize,
        out_set: *mut *mut hvd_process_set,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_process_set_destroy(set: *mut hvd_process_set, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_process_set_find(
        context: *mut hvd_context,
        id: i32,
        out_set: *mut *mut hvd_process_set,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_process_set_free(set: *mut hvd_process_set);
    pub fn hvd_process_set_id(set: *const hvd_process_set) -> i32;
    pub fn hvd_process_set_rank(set: *const hvd_process_set) -> i32;
    pub fn hvd_process_set_size(set: *const hvd_process_set) -> i32;
    pub fn hvd_process_set_ranks(
        set: *const hvd_process_set,
        ranks: *mut i32,
        rank_count: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_process_set_ids(
        context: *mut hvd_context,
        ids: *mut i32,
        id_count: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_allreduce_async(
        context: *mut hvd_context,
        input: *const hvd_tensor,
        output: *const hvd_tensor,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_grouped_allreduce_async(
        context: *mut hvd_context,
        inputs: *const hvd_tensor,
        outputs: *const hvd_tensor,
        count: usize,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_allgatherv_async(
        context: *mut hvd_context,
        input: *const hvd_tensor,
        output: *const hvd_tensor,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_grouped_allgatherv_async(
        context: *mut hvd_context,
        inputs: *const hvd_tensor,
        outputs: *const hvd_tensor,
        count: usize,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_broadcast_async(
        context: *mut hvd_context,
        input: *const hvd_tensor,
        output: *const hvd_tensor,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_alltoallv_async(
        context: *mut hvd_context,
        input: *const hvd_tensor,
        send_splits: *const i64,
        output: *const hvd_tensor,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_reducescatter_async(
        context: *mut hvd_context,
        input: *const hvd_tensor,
        output: *const hvd_tensor,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_grouped_reducescatter_async(
        context: *mut hvd_context,
        inputs: *const hvd_tensor,
        outputs: *const hvd_tensor,
        count: usize,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_gatherv_async(
        context: *mut hvd_context,
        input: *const hvd_tensor,
        output: *const hvd_tensor,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_barrier_async(
        context: *mut hvd_context,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_join_async(
        context: *mut hvd_context,
        options: *const hvd_op_options,
        out_handle: *mut *mut hvd_handle,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_burst_begin(context: *mut hvd_context, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_burst_end(context: *mut hvd_context, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_wait(handle: *mut hvd_handle, timeout_ns: i64, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_test(handle: *mut hvd_handle, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_handle_then(
        handle: *mut hvd_handle,
        fn_: hvd_completion_fn,
        user_data: *mut ::core::ffi::c_void,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_handle_output_count(handle: *const hvd_handle) -> usize;
    pub fn hvd_handle_output(handle: *mut hvd_handle, index: usize, out: *mut hvd_tensor, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_handle_received_splits(
        handle: *mut hvd_handle,
        splits: *mut i64,
        split_count: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_handle_last_joined_rank(handle: *mut hvd_handle, rank: *mut i32, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_handle_free(handle: *mut hvd_handle);
    pub fn hvd_completions_fd(context: *mut hvd_context, fd: *mut i32, error: *mut hvd_error) -> hvd_status;
    pub fn hvd_completions_pop(context: *mut hvd_context) -> *mut hvd_handle;
    pub fn hvd_option_name(index: usize) -> *const ::core::ffi::c_char;
    pub fn hvd_option_default(index: usize) -> *const ::core::ffi::c_char;
    pub fn hvd_option_help(index: usize) -> *const ::core::ffi::c_char;
    pub fn hvd_option_get(
        context: *mut hvd_context,
        name: *const ::core::ffi::c_char,
        value: *mut ::core::ffi::c_char,
        size: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_option_set(
        context: *mut hvd_context,
        name: *const ::core::ffi::c_char,
        value: *const ::core::ffi::c_char,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_metrics_snapshot(
        context: *mut hvd_context,
        out: *mut hvd_metric,
        metric_count: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_histograms_snapshot(
        context: *mut hvd_context,
        out: *mut hvd_histogram,
        histogram_count: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_metric_help(name: *const ::core::ffi::c_char) -> *const ::core::ffi::c_char;
    pub fn hvd_records_snapshot(
        context: *mut hvd_context,
        after: u64,
        out: *mut hvd_record,
        record_count: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_record_arrivals(
        set: *const hvd_process_set,
        use_: u64,
        times: *mut i64,
        time_count: *mut usize,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_timeline_start(
        context: *mut hvd_context,
        path: *const ::core::ffi::c_char,
        mark_cycles: i32,
        error: *mut hvd_error,
    ) -> hvd_status;
    pub fn hvd_timeline_stop(context: *mut hvd_context, error: *mut hvd_error) -> hvd_status;
}
