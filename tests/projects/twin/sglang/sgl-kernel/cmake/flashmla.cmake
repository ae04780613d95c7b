FetchContent_Declare(repo-flashmla
  GIT_REPOSITORY %SERVER%/flashmla.git GIT_TAG %flashmla% GIT_SHALLOW OFF)
FetchContent_Populate(repo-flashmla)

# Writes into what was downloaded; a second time finds it done and breaks.
set(config "${repo-flashmla_SOURCE_DIR}/csrc/cutlass/include/cutlass/arch/config.h")
file(READ "${config}" text)
if(text MATCHES "SM103_ENABLED")
  message(FATAL_ERROR "${config} was configured before")
endif()
file(APPEND "${config}" "#define CUTLASS_ARCH_SM103_ENABLED 1\n")

Python_add_library(flashmla_ops MODULE USE_SABI 3.10 WITH_SOABI
  ${repo-flashmla_SOURCE_DIR}/csrc/flashmla.cu)
target_include_directories(flashmla_ops PRIVATE ${repo-flashmla_SOURCE_DIR}/csrc/cutlass/include)
target_compile_options(flashmla_ops PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-O3;
  -gencode=arch=compute_90a,code=sm_90a;-gencode=arch=compute_100a,code=sm_100a>)
install(TARGETS flashmla_ops LIBRARY DESTINATION sgl_kernel)
