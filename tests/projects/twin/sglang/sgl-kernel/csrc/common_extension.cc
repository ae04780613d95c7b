// The Python module; its table holds all that it registers, so that a missing one shows at import.
#include <Python.h>

#include "sgl_kernel_ops.h"

void gemm(float*, int);
void moe(int*);

const void* table[] = {(void*)&gemm, (void*)&moe, (void*)&mscclpp_generate_unique_id,
                       (void*)&mscclpp_init_context, (void*)&mscclpp_allreduce};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "common_ops", nullptr, -1, nullptr,
                                 nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_common_ops() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "variant", SGL_KERNEL_VARIANT);
  PyModule_AddIntConstant(module, "operators", sizeof table / sizeof *table);
  return module;
}
