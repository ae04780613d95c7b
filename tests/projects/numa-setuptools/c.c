#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numa.h>

static PyObject *nodes(PyObject *self, PyObject *none) {
  return PyLong_FromLong(numa_available() < 0 ? 0 : numa_max_node() + 1);
}
static PyMethodDef methods[] = {{"nodes", nodes, METH_NOARGS, 0}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", 0, -1, methods};
PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
