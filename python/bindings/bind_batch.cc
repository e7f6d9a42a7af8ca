// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "bind_batch.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "emlio/example/columns.h"
#include "emlio/example/feature_spec.h"
#include "errors.h"

namespace nb = nanobind;

namespace emlio::python {
namespace {

using Bytes = std::span<const uint8_t>;

// A batch that Python holds. Its memory goes back to the loader's pools, behind locks that a forked
// child may find held for ever: there it is left alone.
class SharedBatch {
 public:
  explicit SharedBatch(std::shared_ptr<const loader::Batch> batch) : batch_(std::move(batch)) {}
  SharedBatch(const SharedBatch&) = delete;
  SharedBatch& operator=(const SharedBatch&) = delete;
  ~SharedBatch() {
    if (getpid() != pid_) (void)new std::shared_ptr<const loader::Batch>(std::move(batch_));
  }

  const loader::Batch& operator*() const { return *batch_; }
  const loader::Batch* operator->() const { return batch_.get(); }

 private:
  std::shared_ptr<const loader::Batch> batch_;
  const pid_t pid_ = getpid();
};

using BatchPtr = std::shared_ptr<const SharedBatch>;

// The Python classes. Each holds the batch in C++ and no Python object, so that none can be part of
// a reference cycle; arrays refer to the object that made them.
struct Batch {
  BatchPtr batch;
};
struct BytesColumn {
  BatchPtr batch;
  std::span<const Bytes> values;
};
struct Ragged {
  BatchPtr batch;
  const example::Column* column;
};

// A read-only array over the owner's memory. An empty one still needs an address.
template <typename T>
nb::object ReadOnlyArray(nb::handle owner, std::span<const T> values) {
  static const T nothing{};
  const T* data = values.empty() ? &nothing : values.data();
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {values.size()}, owner));
}

// The columns' numbers belong to the batch alone, and the batch to its user, who may change them.
template <typename T>
nb::object Array(nb::handle owner, std::span<const T> values, size_t columns = 0) {
  static T nothing{};
  T* data = values.empty() ? &nothing : const_cast<T*>(values.data());
  if (columns == 0) {
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {values.size()}, owner));
  }
  return nb::cast(
      nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {values.size() / columns, columns}, owner));
}

template <typename T>
nb::object OwnedArray(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return ReadOnlyArray<T>(owner, *kept);
}

size_t Index(Py_ssize_t index, size_t size, const char* what) {
  const Py_ssize_t length = static_cast<Py_ssize_t>(size);
  if (index < -length || index >= length) {
    throw nb::index_error(
        (std::string(what) + " " + std::to_string(index) + " of " + std::to_string(size)).c_str());
  }
  return static_cast<size_t>(index < 0 ? index + length : index);
}

const example::Column& FindColumn(const loader::Batch& batch, const std::string& name) {
  for (const example::Column& column : batch.columns()) {
    if (column.spec.name == name) return column;
  }
  std::string message = "no feature '" + name + "' in this batch; it has ";
  if (batch.columns().empty()) message += "none: give features to the Loader";
  for (size_t i = 0; i < batch.columns().size(); ++i) {
    message += (i == 0 ? "'" : ", '") + batch.columns()[i].spec.name + "'";
  }
  throw nb::key_error(message.c_str());
}

// Pickled as a plain list: an array of another process's memory would be no view of it anyway.
nb::object AsList(nb::handle self) {
  return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyList_Type)),
                        nb::make_tuple(nb::steal(PySequence_List(self.ptr()))));
}

nb::object Iterator(nb::handle self) { return nb::steal(PySeqIter_New(self.ptr())); }

// --- BytesColumn

nb::list BytesSlice(nb::handle self, size_t begin, size_t end) {
  const BytesColumn& column = *nb::inst_ptr<BytesColumn>(self);
  nb::list out;
  for (size_t i = begin; i < end; ++i) out.append(ReadOnlyArray(self, column.values[i]));
  return out;
}

nb::object BytesItem(nb::handle_t<BytesColumn> self, Py_ssize_t index) {
  const BytesColumn& column = *nb::inst_ptr<BytesColumn>(self);
  return ReadOnlyArray(self, column.values[Index(index, column.values.size(), "value")]);
}

nb::list BytesItems(nb::handle_t<BytesColumn> self, const nb::slice& slice) {
  const BytesColumn& column = *nb::inst_ptr<BytesColumn>(self);
  const auto [start, stop, step, length] = slice.compute(column.values.size());
  nb::list out;
  for (size_t i = 0; i < length; ++i) {
    const Py_ssize_t at = start + static_cast<Py_ssize_t>(i) * step;
    out.append(ReadOnlyArray(self, column.values[static_cast<size_t>(at)]));
  }
  return out;
}

nb::list BytesList(const BytesColumn& column) {
  nb::list out;
  for (const Bytes& value : column.values) {
    out.append(nb::bytes(reinterpret_cast<const char*>(value.data()), value.size()));
  }
  return out;
}

// A value on loan to another library by the DLPack protocol (its DLManagedTensor). Whoever holds it
// gives it back from any thread without the GIL, which an array's owner would need.
struct Loan {
  nb::dlpack::dltensor tensor;
  Loan* self;
  void (*give_back)(Loan*);
  // Ours, behind what the protocol knows of.
  int64_t size;
  BatchPtr batch;
};
constexpr const char* kUnusedLoan = "dltensor";  // whoever uses one renames the capsule

nb::object Lend(const BatchPtr& batch, Bytes value) {
  static uint8_t nothing = 0;
  auto loan = std::make_unique<Loan>();
  loan->tensor.data = value.empty() ? &nothing : const_cast<uint8_t*>(value.data());
  loan->tensor.device = {nb::device::cpu::value, 0};
  loan->tensor.ndim = 1;
  loan->tensor.dtype = nb::dtype<uint8_t>();
  loan->tensor.shape = &loan->size;
  loan->self = loan.get();
  loan->give_back = [](Loan* given) { delete given; };
  loan->size = static_cast<int64_t>(value.size());
  loan->batch = batch;
  PyObject* const capsule = PyCapsule_New(loan.get(), kUnusedLoan, [](PyObject* dropped) {
    if (PyCapsule_IsValid(dropped, kUnusedLoan) == 0) return;
    auto* unused = static_cast<Loan*>(PyCapsule_GetPointer(dropped, kUnusedLoan));
    unused->give_back(unused);
  });
  if (capsule == nullptr) throw nb::python_error();
  (void)loan.release();
  return nb::steal(capsule);
}

nb::list BytesToDlpack(const BytesColumn& column) {
  nb::list out;
  for (const Bytes& value : column.values) out.append(Lend(column.batch, value));
  return out;
}

// --- Ragged. Columns of a fixed number of bytes values are one as well: all rows equally long.

size_t Rows(const Ragged& ragged) { return ragged.batch->operator->()->records().size(); }

std::pair<size_t, size_t> Row(const Ragged& ragged, size_t row) {
  const example::Column& column = *ragged.column;
  if (column.spec.length != 0) return {row * column.spec.length, (row + 1) * column.spec.length};
  return {column.row_offsets[row], column.row_offsets[row + 1]};
}

nb::object RaggedValues(nb::handle_t<Ragged> self) {
  const Ragged& ragged = *nb::inst_ptr<Ragged>(self);
  switch (ragged.column->spec.kind) {
    case example::FeatureKind::kInt64:
      return Array(self, std::span<const int64_t>(ragged.column->int64_values));
    case example::FeatureKind::kFloat:
      return Array(self, std::span<const float>(ragged.column->float_values));
    case example::FeatureKind::kBytes:
      break;
  }
  return nb::cast(BytesColumn{ragged.batch, ragged.column->bytes_values});
}

nb::object RaggedItem(nb::handle_t<Ragged> self, Py_ssize_t index) {
  const Ragged& ragged = *nb::inst_ptr<Ragged>(self);
  const auto [begin, end] = Row(ragged, Index(index, Rows(ragged), "record"));
  const example::Column& column = *ragged.column;
  switch (column.spec.kind) {
    case example::FeatureKind::kInt64:
      return Array(self, std::span(column.int64_values).subspan(begin, end - begin));
    case example::FeatureKind::kFloat:
      return Array(self, std::span(column.float_values).subspan(begin, end - begin));
    case example::FeatureKind::kBytes:
      break;
  }
  return BytesSlice(nb::cast(BytesColumn{ragged.batch, column.bytes_values}), begin, end);
}

nb::object RaggedOffsets(nb::handle_t<Ragged> self) {
  const Ragged& ragged = *nb::inst_ptr<Ragged>(self);
  const std::vector<uint64_t>& offsets = ragged.column->row_offsets;
  if (!offsets.empty()) {
    // Signed, because NumPy turns sums of uint64 and int into floats.
    const auto* data = reinterpret_cast<const int64_t*>(offsets.data());
    return ReadOnlyArray(self, std::span(data, offsets.size()));
  }
  std::vector<int64_t> made(Rows(ragged) + 1);
  for (size_t row = 0; row < made.size(); ++row) {
    made[row] = static_cast<int64_t>(row * ragged.column->spec.length);
  }
  return OwnedArray(std::move(made));
}

// --- Batch

nb::object BatchColumn(nb::handle_t<Batch> self, const std::string& name) {
  const Batch& batch = *nb::inst_ptr<Batch>(self);
  const example::Column& column = FindColumn(**batch.batch, name);
  const example::FeatureSpec& spec = column.spec;
  const bool fixed = spec.length != 0;
  switch (spec.kind) {
    case example::FeatureKind::kInt64:
      if (fixed)
        return Array(self, std::span<const int64_t>(column.int64_values),
                     spec.scalar ? 0 : spec.length);
      break;
    case example::FeatureKind::kFloat:
      if (fixed)
        return Array(self, std::span<const float>(column.float_values),
                     spec.scalar ? 0 : spec.length);
      break;
    case example::FeatureKind::kBytes:
      if (spec.scalar) return nb::cast(BytesColumn{batch.batch, column.bytes_values});
      break;
  }
  return nb::cast(Ragged{batch.batch, &column});
}

nb::object BatchPresent(nb::handle_t<Batch> self, const std::string& name) {
  const Batch& batch = *nb::inst_ptr<Batch>(self);
  const example::Column& column = FindColumn(**batch.batch, name);
  // One byte a record, 0 or 1: what NumPy keeps a bool in.
  std::span<const uint8_t> present = column.present;
  const nb::object array =
      present.empty() ? OwnedArray(std::vector<uint8_t>((*batch.batch)->records().size(), 1))
                      : ReadOnlyArray(self, present);
  return array.attr("view")("bool");
}

std::vector<std::string> BatchKeys(const Batch& batch) {
  std::vector<std::string> names;
  for (const example::Column& column : (*batch.batch)->columns()) names.push_back(column.spec.name);
  return names;
}

}  // namespace

void BindBatch(nb::module_& m) {
  nb::class_<BytesColumn>(m, "BytesColumn",
                          "Bytes values of a batch, in order: a sequence of read-only uint8 arrays "
                          "that share the batch's memory.")
      .def("__len__", [](const BytesColumn& self) { return self.values.size(); })
      .def("__getitem__", &BytesItem, nb::arg("index"))
      .def("__getitem__", &BytesItems, nb::arg("index"))
      .def("__iter__", &Iterator)
      .def("__reduce__", &AsList)
      .def("tolist", &BytesList, "All values as bytes objects, which are copies.")
      .def("to_dlpack", &BytesToDlpack,
           "All values as DLPack capsules that share the batch's memory; each can be used once.")
      .def("__repr__", [](const BytesColumn& self) {
        return "<emlio.BytesColumn of " + std::to_string(self.values.size()) + " values>";
      });

  nb::class_<Ragged>(m, "Ragged", "A column with any number of values a record.")
      .def_prop_ro("values", &RaggedValues, "The values of all records, one after another.")
      .def_prop_ro("row_offsets", &RaggedOffsets,
                   "int64, shape (B + 1,): record i has values[row_offsets[i]:row_offsets[i + 1]].")
      .def("__len__", &Rows)
      .def("__getitem__", &RaggedItem, nb::arg("index"))
      .def("__iter__", &Iterator)
      .def("__reduce__", &AsList)
      .def("__repr__", [](const Ragged& self) {
        return "<emlio.Ragged of " + std::to_string(Rows(self)) + " records>";
      });

  nb::class_<Batch>(m, "Batch", "One step of one rank; batch[name] is the column of a feature.")
      .def_prop_ro("epoch", [](const Batch& self) { return (*self.batch)->epoch(); })
      .def_prop_ro("step", [](const Batch& self) { return (*self.batch)->step(); })
      .def_prop_ro(
          "payload_bytes", [](const Batch& self) { return (*self.batch)->payload_bytes(); },
          "Size of all payloads.")
      .def_prop_ro(
          "valid", [](const Batch& self) { return (*self.batch)->valid_records(); },
          "So many records, the first ones, are no padding.")
      .def_prop_ro(
          "records",
          [](const Batch& self) { return BytesColumn{self.batch, (*self.batch)->records()}; },
          "The records' payloads as they are in the shards.")
      .def_prop_ro(
          "indices",
          [](nb::handle_t<Batch> self) {
            return ReadOnlyArray(self, (*nb::inst_ptr<Batch>(self)->batch)->indices());
          },
          "Each record's number in the data set.")
      .def_prop_ro(
          "bad_records",
          [](const Batch& self) {
            nb::list out;
            for (const loader::Batch::BadRecord& bad : (*self.batch)->bad_records()) {
              out.append(nb::make_tuple(bad.index, FileName(bad.reason.message())));
            }
            return out;
          },
          "Number and fault of each record that was left out.")
      .def("__len__", [](const Batch& self) { return (*self.batch)->records().size(); })
      .def("__getitem__", &BatchColumn, nb::arg("name"))
      .def(
          "__contains__",
          [](const Batch& self, nb::handle name) {
            for (const std::string& key : BatchKeys(self)) {
              if (name.equal(nb::str(key.data(), key.size()))) return true;
            }
            return false;
          },
          nb::arg("name").none())
      .def("__iter__", [](const Batch& self) { return nb::iter(nb::cast(BatchKeys(self))); })
      .def("keys", &BatchKeys, "The features' names, in the order they were asked for in.")
      .def(
          "is_optional",
          [](const Batch& self, const std::string& name) {
            return FindColumn(**self.batch, name).spec.optional;
          },
          nb::arg("name"), "Whether the feature may be absent.")
      .def("present", &BatchPresent, nb::arg("name"), "Which records have the feature.")
      .def("__repr__", [](const Batch& self) {
        return "<emlio.Batch epoch " + std::to_string((*self.batch)->epoch()) + " step " +
               std::to_string((*self.batch)->step()) + ", " +
               std::to_string((*self.batch)->records().size()) + " records>";
      });
}

nb::object WrapBatch(std::shared_ptr<const loader::Batch> batch) {
  return nb::cast(Batch{std::make_shared<const SharedBatch>(std::move(batch))});
}

}  // namespace emlio::python
