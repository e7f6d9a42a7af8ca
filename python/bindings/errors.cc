// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <array>
#include <string>

namespace nb = nanobind;

namespace emlio::python {
namespace {

// The one table between codes and exception classes. Where Python has a built-in class of the same
// meaning, ours is also one of those, so that `except FileNotFoundError` does what it says.
struct ErrorClass {
  Code code;
  const char* name;
  PyObject** builtin;  // null: only emlio.Error
  const char* doc;
};

const std::array<ErrorClass, 15> kErrorClasses = {{
    {Code::kInvalidArgument, "InvalidArgumentError", &PyExc_ValueError,
     "An option or a request that can never work."},
    {Code::kNotFound, "NotFoundError", &PyExc_FileNotFoundError,
     "There is no such data set, shard, file or host name."},
    {Code::kPermissionDenied, "PermissionDeniedError", &PyExc_PermissionError,
     "Outside the configured roots, or refused by the system."},
    {Code::kCorrupt, "CorruptError", nullptr, "A checksum or a structure does not hold."},
    {Code::kTruncated, "TruncatedError", nullptr, "The data end before they should."},
    {Code::kUnsupported, "UnsupportedError", nullptr,
     "Recognised, but not handled: a compressed shard, an unknown version, a worker process."},
    {Code::kLimitExceeded, "LimitExceededError", nullptr, "Larger than a stated limit."},
    {Code::kPlanMismatch, "PlanMismatchError", nullptr,
     "Ranks, sources or a saved state disagree about what is to be read."},
    {Code::kProtocol, "ProtocolError", nullptr, "The peer sent something that is not allowed."},
    {Code::kUnavailable, "UnavailableError", &PyExc_ConnectionError,
     "The peer cannot be reached, or the connection was lost."},
    {Code::kTimeout, "TimeoutError", &PyExc_TimeoutError, "A deadline passed."},
    {Code::kCancelled, "CancelledError", nullptr, "Stopped by the user, or closed."},
    {Code::kShardChanged, "ShardChangedError", nullptr,
     "A shard is not what its index says any more."},
    {Code::kIo, "IoError", &PyExc_OSError, "The operating system reported an error on a file."},
    {Code::kInternal, "InternalError", nullptr, "A fault of EMLIO's own: please report it."},
}};

// Owned references that live as long as the process, like the module itself.
std::array<PyObject*, kErrorClasses.size()> g_classes{};

PyObject* NewClass(const char* name, const char* doc, nb::handle bases, Code code) {
  nb::dict members;
  const std::string_view code_name = CodeName(code);
  members["code"] = nb::str(code_name.data(), code_name.size());
  // Named after the package: that is where users find the classes, and where pickle looks.
  const std::string full_name = std::string("emlio.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, bases.ptr(), members.ptr());
  if (made == nullptr) throw nb::python_error();
  return made;
}

}  // namespace

void BindErrors(nb::module_& m) {
  PyObject* base = NewClass(
      "Error",
      "What every failure of EMLIO is raised as: one subclass for each error code.\n\n"
      "Attributes:\n"
      "    code: The name of the code as in messages and --json output, such as \"CORRUPT\".",
      nb::handle(PyExc_Exception), Code::kInternal);
  m.attr("Error") = nb::handle(base);
  for (size_t i = 0; i < kErrorClasses.size(); ++i) {
    const ErrorClass& entry = kErrorClasses[i];
    nb::object bases = nb::borrow(base);
    if (entry.builtin != nullptr) bases = nb::make_tuple(bases, nb::handle(*entry.builtin));
    g_classes[i] = NewClass(entry.name, entry.doc, bases, entry.code);
    m.attr(entry.name) = nb::handle(g_classes[i]);
  }
}

nb::str FileName(std::string_view bytes) {
  nb::object text = nb::steal(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  if (!text.is_valid()) throw nb::python_error();
  return nb::borrow<nb::str>(text);
}

void Raise(const Status& status) {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  PyObject* type = g_classes.back();
  for (size_t i = 0; i < kErrorClasses.size(); ++i) {
    if (kErrorClasses[i].code == status.code()) type = g_classes[i];
  }
  // Messages may hold names of files.
  PyErr_SetObject(type, FileName(status.message()).ptr());
  throw nb::python_error();
}

}  // namespace emlio::python
