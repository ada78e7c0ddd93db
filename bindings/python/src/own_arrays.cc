// SPDX-License-Identifier: Apache-2.0
#include "own_arrays.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace py = pybind11;

namespace hvd::python {
namespace {

// What of DLPack's header is needed here: https://dmlc.github.io/dlpack/latest/c_api.html.
struct DlpackTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t type_code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
static_assert(sizeof(DlpackTensor) == 48 && offsetof(DlpackTensor, shape) == 24);

struct DlpackExchange {
  uint32_t major;
  uint32_t minor;
  DlpackExchange* previous;
  void* allocator;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, DlpackTensor* out);  // an exception is set if it is not 0
};

constexpr uint32_t kDlpackMajor = 1;
constexpr int32_t kDlpackCpu = 1;
constexpr const char* kExchangeName = "dlpack_exchange_api";
enum DlpackCode : uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

// The library's number of a dtype by NumPy's number; -1 for others.
using NumpyCodes = std::array<int, 32>;

// Objects of a type and how to read them.
struct Reader {
  PyTypeObject* type;
  const DlpackExchange* exchange;  // nullptr: NumPy's arrays
  NumpyCodes codes;
};

// Types live as long as the process.
std::vector<Reader>& readers() {
  static auto* list = new std::vector<Reader>;
  return *list;
}

std::optional<hvd_dtype> dtype_of(const DlpackTensor& tensor) {
  if (tensor.lanes != 1) return std::nullopt;
  switch (tensor.type_code << 8 | tensor.bits) {
    case kUnsigned << 8 | 8: return HVD_UINT8;
    case kUnsigned << 8 | 16: return HVD_UINT16;
    case kInt << 8 | 8: return HVD_INT8;
    case kInt << 8 | 16: return HVD_INT16;
    case kInt << 8 | 32: return HVD_INT32;
    case kInt << 8 | 64: return HVD_INT64;
    case kFloat << 8 | 16: return HVD_FLOAT16;
    case kFloat << 8 | 32: return HVD_FLOAT32;
    case kFloat << 8 | 64: return HVD_FLOAT64;
    case kBfloat << 8 | 16: return HVD_BFLOAT16;
    case kBool << 8 | 8: return HVD_BOOL;
    default: return std::nullopt;
  }
}

// In row-major order without gaps, and not empty.
bool is_dense(const DlpackTensor& tensor) {
  int64_t elements = 1;
  for (int32_t d = tensor.ndim - 1; d >= 0; --d) {
    const int64_t size = tensor.shape[d];
    if (tensor.strides != nullptr && size != 1 && tensor.strides[d] != elements) return false;
    elements *= size;
  }
  return elements != 0;
}

// Whether PyTorch keeps the negative of the tensor's values in memory, which DLPack does not tell.
bool is_negated(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  PyObject* answer = PyObject_CallMethodNoArgs(object, name);
  if (answer == nullptr) PyErr_Clear();  // an object without such a thing
  const bool negated = answer == Py_True;
  Py_XDECREF(answer);
  return negated;
}

bool read_by_dlpack(PyObject* object, const DlpackExchange& exchange, hvd_tensor& tensor) {
  DlpackTensor found{};
  if (exchange.tensor_from_object(object, &found) != 0) {
    PyErr_Clear();  // who describes the object by other means says what is wrong with it
    return false;
  }
  const std::optional<hvd_dtype> dtype = dtype_of(found);
  if (!dtype || found.device_type != kDlpackCpu || !is_dense(found) || is_negated(object))
    return false;
  tensor.data = static_cast<char*>(found.data) + found.byte_offset;
  tensor.dtype = *dtype;
  tensor.ndim = found.ndim;
  tensor.shape = found.shape;
  return true;
}

NumpyCodes codes_of(const py::dict& dtypes) {
  NumpyCodes codes{};
  codes.fill(-1);
  for (const auto& [dtype, code] : dtypes)
    codes.at(static_cast<size_t>(py::reinterpret_borrow<py::dtype>(dtype).num())) =
        code.cast<int>();
  return codes;
}

bool has_flags(const py::array& array, int flags) { return (array.flags() & flags) == flags; }

// False for another type, gaps, foreign byte order, or a dtype that is not among the codes.
bool read_numpy(PyObject* object, const NumpyCodes& codes, hvd_tensor& tensor) {
  using py::detail::npy_api;
  if (Py_TYPE(object) != npy_api::get().PyArray_Type_) return false;
  const auto array = py::reinterpret_borrow<py::array>(object);
  if (!has_flags(array, npy_api::NPY_ARRAY_C_CONTIGUOUS_)) return false;
  const py::dtype dtype = array.dtype();
  const int number = dtype.num();
  if (number < 0 || number >= static_cast<int>(codes.size()) || dtype.byteorder() == '>')
    return false;
  const int code = codes[static_cast<size_t>(number)];
  if (code < 0) return false;
  tensor.data = const_cast<void*>(array.data());
  tensor.dtype = code;
  tensor.ndim = static_cast<int32_t>(array.ndim());
  tensor.shape = reinterpret_cast<const int64_t*>(array.shape());
  return true;
}

bool may_write_numpy(PyObject* object) {
  return has_flags(py::reinterpret_borrow<py::array>(object),
                   py::detail::npy_api::NPY_ARRAY_WRITEABLE_);
}

bool has_elements(const hvd_tensor& tensor) {
  return std::find(tensor.shape, tensor.shape + tensor.ndim, 0) == tensor.shape + tensor.ndim;
}

py::object describe(PyObject* object, const NumpyCodes& codes) {
  hvd_tensor tensor{};
  if (!read_numpy(object, codes, tensor)) return py::none();
  py::tuple shape(static_cast<size_t>(tensor.ndim));
  for (size_t d = 0; d < shape.size(); ++d) shape[d] = tensor.shape[d];
  return py::make_tuple(reinterpret_cast<uintptr_t>(tensor.data), tensor.dtype, std::move(shape));
}

}  // namespace

py::object make_describe(const py::dict& dtypes) {
  return py::cpp_function(
      [codes = codes_of(dtypes)](py::handle object) { return describe(object.ptr(), codes); });
}

void read_arrays_of(py::type type, const py::object& how) {
  Reader reader{reinterpret_cast<PyTypeObject*>(type.ptr()), nullptr, {}};
  if (py::isinstance<py::dict>(how)) {
    reader.codes = codes_of(how.cast<py::dict>());
  } else {
    void* exchange = PyCapsule_GetPointer(how.ptr(), kExchangeName);
    if (exchange == nullptr) throw py::error_already_set();
    reader.exchange = static_cast<const DlpackExchange*>(exchange);
    if (reader.exchange->major != kDlpackMajor || reader.exchange->tensor_from_object == nullptr)
      return;
  }
  type.inc_ref();
  readers().push_back(reader);
}

bool read_own_array(PyObject* object, bool to_write, hvd_tensor& tensor) {
  tensor.device_type = HVD_CPU;
  for (const Reader& reader : readers()) {
    if (Py_TYPE(object) != reader.type) continue;
    if (reader.exchange != nullptr) return read_by_dlpack(object, *reader.exchange, tensor);
    return read_numpy(object, reader.codes, tensor) && has_elements(tensor) &&
           (!to_write || may_write_numpy(object));
  }
  return false;
}

}  // namespace hvd::python
