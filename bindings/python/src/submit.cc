// SPDX-License-Identifier: Apache-2.0
// Context.submit and submit_array: from Python's arguments to one call of the C API.
#include "submit.h"

#include <array>
#include <string>
#include <string_view>

#include "context.h"
#include "errors.h"
#include "kinds.h"
#include "native.h"
#include "operation_type.h"
#include "own_arrays.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

template <class Function>
Function found(Function function, const char* missing) {
  if (function == nullptr) throw py::value_error(missing);
  return function;
}

auto single_function(int kind) {
  return found(kSingleFunctions[kind], "kind: no operation of one tensor");
}
auto grouped_function(int kind) {
  return found(kGroupedFunctions[kind], "kind: no grouped operation");
}

// The engine would take the part before it for the whole.
void check_name(std::string_view text, py::handle name) {
  if (text.find('\0') == std::string_view::npos) return;
  throw py::value_error("the name " + py::repr(name).cast<std::string>() + " has a null character");
}

const char* text_or_null(py::handle name) {
  if (name.is_none()) return nullptr;
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
  if (text == nullptr) throw py::error_already_set();
  check_name(std::string_view(text, static_cast<size_t>(length)), name);
  return text;
}

int64_t to_int64(PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

int32_t to_int32(PyObject* number) {
  const int64_t value = to_int64(number);
  if (value < INT32_MIN || value > INT32_MAX)
    throw py::value_error("a number does not fit into 32 bits");
  return static_cast<int32_t>(value);
}

void* to_pointer(PyObject* number) {
  void* address = PyLong_AsVoidPtr(number);
  if (address == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return address;
}

// The hvd_tensors of one call with their shapes, which the library copies before the call returns.
// A small tensor, the common case, needs no memory from the heap.
class Tensors {
 public:
  // `described` is a tuple of (address, dtype number, shape tuple), or None. Tensors on a CUDA
  // device: (..., device id, stream).
  explicit Tensors(py::handle described) {
    if (described.is_none()) return;
    const size_t dimensions = check(described);
    tensors_ = first_.data();
    int64_t* sizes = few_.data();
    if (size_ > first_.size()) tensors_ = (more_ = std::make_unique<hvd_tensor[]>(size_)).get();
    if (dimensions > few_.size()) sizes = (many_ = std::make_unique<int64_t[]>(dimensions)).get();
    for (size_t i = 0; i < size_; ++i)
      sizes =
          take(PyTuple_GET_ITEM(described.ptr(), static_cast<Py_ssize_t>(i)), tensors_[i], sizes);
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  const hvd_tensor* data() const { return tensors_; }  // NULL for None
  size_t size() const { return size_; }
  void* stream() const { return stream_; }  // of the first tensor

 private:
  static constexpr Py_ssize_t kOnCpu = 3;
  static constexpr Py_ssize_t kOnCuda = 5;

  // The number of dimensions of all tensors together; sets size_.
  size_t check(py::handle described) {
    if (!PyTuple_Check(described.ptr())) throw py::type_error("tensors: not a tuple");
    size_ = static_cast<size_t>(PyTuple_GET_SIZE(described.ptr()));
    size_t dimensions = 0;
    for (size_t i = 0; i < size_; ++i) {
      PyObject* item = PyTuple_GET_ITEM(described.ptr(), static_cast<Py_ssize_t>(i));
      const Py_ssize_t fields = PyTuple_Check(item) ? PyTuple_GET_SIZE(item) : 0;
      if ((fields != kOnCpu && fields != kOnCuda) || !PyTuple_Check(PyTuple_GET_ITEM(item, 2)))
        throw py::type_error(
            "tensor: not (address, dtype, shape) nor (address, dtype, shape, device id, stream)");
      if (i == 0 && fields == kOnCuda) stream_ = to_pointer(PyTuple_GET_ITEM(item, 4));
      dimensions += static_cast<size_t>(PyTuple_GET_SIZE(PyTuple_GET_ITEM(item, 2)));
    }
    return dimensions;
  }

  // Returns the place for the next tensor's sizes.
  static int64_t* take(PyObject* item, hvd_tensor& tensor, int64_t* sizes) {
    PyObject* shape = PyTuple_GET_ITEM(item, 2);
    tensor = hvd_tensor{};
    tensor.data = to_pointer(PyTuple_GET_ITEM(item, 0));
    tensor.dtype = static_cast<hvd_dtype>(to_int64(PyTuple_GET_ITEM(item, 1)));
    const bool on_cuda = PyTuple_GET_SIZE(item) == kOnCuda;
    tensor.device_type = on_cuda ? HVD_CUDA : HVD_CPU;
    if (on_cuda) tensor.device_id = to_int32(PyTuple_GET_ITEM(item, 3));
    tensor.ndim = static_cast<int32_t>(PyTuple_GET_SIZE(shape));
    tensor.shape = sizes;
    for (Py_ssize_t d = 0; d < tensor.ndim; ++d) *sizes++ = to_int64(PyTuple_GET_ITEM(shape, d));
    return sizes;
  }

  hvd_tensor* tensors_ = nullptr;
  size_t size_ = 0;
  void* stream_ = nullptr;
  std::array<hvd_tensor, 1> first_;
  std::array<int64_t, 8> few_;
  std::unique_ptr<hvd_tensor[]> more_;
  std::unique_ptr<int64_t[]> many_;
};

hvd_status start_alltoall(hvd_context* context, const hvd_tensor* input, py::handle splits,
                          const hvd_tensor* output, const hvd_op_options& options,
                          hvd_handle** handle, hvd_error* error) {
  if (splits.is_none())
    return hvd_alltoallv_async(context, input, nullptr, output, &options, handle, error);
  std::vector<int64_t> rows;
  rows.reserve(1);  // an empty list is not "no list": data() must not be NULL
  for (const py::handle split : splits) rows.push_back(split.cast<int64_t>());
  return hvd_alltoallv_async(context, input, rows.data(), output, &options, handle, error);
}

}  // namespace

hvd_status Context::start(const Submission& submission, hvd_op_options& options,
                          hvd_handle** handle, hvd_error* error) {
  if (const auto plain = kPlainFunctions[submission.kind]; plain != nullptr)
    return plain(context_, &options, handle, error);
  const Tensors inputs(submission.inputs);
  options.stream = inputs.stream();
  const bool in_place = submission.outputs.is(submission.inputs);
  const Tensors apart(in_place ? py::none()
                               : py::reinterpret_borrow<py::object>(submission.outputs));
  const hvd_tensor* outputs = in_place ? inputs.data() : apart.data();
  if (submission.grouped)
    return grouped_function(submission.kind)(context_, inputs.data(), outputs, inputs.size(),
                                             &options, handle, error);
  if (inputs.size() != 1) throw py::value_error("inputs: not one tensor");
  if (kKindTraits[submission.kind].splits)
    return start_alltoall(context_, inputs.data(), submission.splits, outputs, options, handle,
                          error);
  return single_function(submission.kind)(context_, inputs.data(), outputs, &options, handle,
                                          error);
}

std::unique_ptr<Prepared> Context::prepare(std::string name, Prepared::Described tensors,
                                           uintptr_t set, hvd_reduce_op reduce_op, double prescale,
                                           double postscale) const {
  check_name(name, py::str(name));
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.set = reinterpret_cast<hvd_process_set*>(set);
  options.reduce_op = reduce_op;
  options.prescale = prescale;
  options.postscale = postscale;
  return std::make_unique<Prepared>(std::move(name), std::move(tensors), options);
}

std::unique_ptr<Burst> Context::start_burst(py::object self, py::list prepared,
                                            const std::vector<uintptr_t>& addresses,
                                            py::object keep) {
  if (!Orphans::of_process().empty()) Orphans::of_process().sweep();
  auto& context = self.cast<Context&>();
  Kept kept;
  kept.context = std::move(self);
  kept.buffers = std::move(keep);
  return std::make_unique<Burst>(context.context_, std::move(prepared), addresses, std::move(kept));
}

template <class Starting>
py::object Context::submitted(py::object self, const Submission& submission, py::object keep,
                              Starting&& starting) {
  auto& context = self.cast<Context&>();
  if (!Orphans::of_process().empty()) Orphans::of_process().sweep();
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = text_or_null(submission.name);
  options.set = reinterpret_cast<hvd_process_set*>(submission.set);
  options.reduce_op = submission.reduce_op;
  options.root = submission.root;
  options.prescale = submission.prescale;
  options.postscale = submission.postscale;
  const bool queued = context.queueing_;
  hvd_handle* handle = nullptr;
  hvd_error error = fresh_error();
  const hvd_status status = starting(context, options, &handle, &error);
  py::object label = options.name != nullptr ? py::reinterpret_borrow<py::object>(submission.name)
                                             : py::str(kKindNames[submission.kind]);
  if (status != HVD_OK) raise_status(status, error, label.cast<std::string>());
  return new_operation(handle, std::move(label), Kept{std::move(self), std::move(keep)}, queued);
}

py::object Context::submit(py::object self, const Submission& submission, py::object keep) {
  return submitted(
      std::move(self), submission, std::move(keep),
      [&](Context& context, hvd_op_options& options, hvd_handle** handle, hvd_error* error) {
        return context.start(submission, options, handle, error);
      });
}

py::object Context::submit_array(py::object self, const Submission& submission) {
  const bool in_place = submission.outputs.is(submission.inputs);
  hvd_tensor input{};
  hvd_tensor output{};
  if (!read_own_array(submission.inputs.ptr(), in_place, input)) return py::none();
  if (!in_place && !read_own_array(submission.outputs.ptr(), true, output)) return py::none();
  py::object keep = in_place ? py::reinterpret_borrow<py::object>(submission.inputs)
                             : py::reinterpret_steal<py::object>(PyTuple_Pack(
                                   2, submission.inputs.ptr(), submission.outputs.ptr()));
  if (!keep) throw py::error_already_set();
  return submitted(
      std::move(self), submission, std::move(keep),
      [&](Context& context, hvd_op_options& options, hvd_handle** handle, hvd_error* error) {
        const hvd_tensor* result = in_place ? &input : &output;
        return single_function(submission.kind)(context.context_, &input, result, &options, handle,
                                                error);
      });
}

namespace {

constexpr Py_ssize_t kSubmitArguments = 12;
constexpr Py_ssize_t kSubmitArrayArguments = 9;

double to_double(PyObject* number) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

int to_kind(PyObject* number) {
  const int32_t kind = to_int32(number);
  if (kind < 0 || kind >= kKinds) throw py::value_error("kind: no such operation");
  return kind;
}

bool to_bool(PyObject* truth) {
  const int value = PyObject_IsTrue(truth);
  if (value < 0) throw py::error_already_set();
  return value == 1;
}

uintptr_t to_address(PyObject* number) { return reinterpret_cast<uintptr_t>(to_pointer(number)); }

PyObject* submit(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    if (count != kSubmitArguments)
      throw py::type_error("submit() takes 12 arguments, all by position");
    const Submission submission{to_kind(given[0]),
                                to_bool(given[1]),
                                given[2],
                                given[3],
                                given[4],
                                to_address(given[5]),
                                to_int32(given[6]),
                                to_int32(given[7]),
                                to_double(given[8]),
                                to_double(given[9]),
                                given[10]};
    return Context::submit(py::reinterpret_borrow<py::object>(self), submission,
                           py::reinterpret_borrow<py::object>(given[11]))
        .release()
        .ptr();
  });
}

PyObject* submit_array(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    if (count != kSubmitArrayArguments)
      throw py::type_error("submit_array() takes 9 arguments, all by position");
    const Submission submission{to_kind(given[0]),
                                false,
                                given[1],
                                given[2],
                                given[3],
                                to_address(given[4]),
                                to_int32(given[5]),
                                to_int32(given[6]),
                                to_double(given[7]),
                                to_double(given[8]),
                                Py_None};
    return Context::submit_array(py::reinterpret_borrow<py::object>(self), submission)
        .release()
        .ptr();
  });
}

void add_method(py::handle type, PyMethodDef& method) {
  const py::object function = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
  if (!function) throw py::error_already_set();
  type.attr(method.ml_name) = function;
}

}  // namespace

void add_submit(py::handle context_type) {
  static PyMethodDef described{"submit", as_method(&submit), METH_FASTCALL, nullptr};
  static PyMethodDef as_it_is{"submit_array", as_method(&submit_array), METH_FASTCALL, nullptr};
  add_method(context_type, described);
  add_method(context_type, as_it_is);
}

}  // namespace hvd::python
