# What the options of vLLM cannot say, without a change to its files.
#
# CMake runs this at the end of each project() call (build.project-include of the recipe). When the
# project's own CMakeLists.txt has been read to its end, sources that are not there or of no use on
# the GPU target are taken out of vLLM's libraries. Which GPU targets a file is compiled for is left
# to vLLM, which asks TORCH_CUDA_ARCH_LIST, and to bk-launch.
#
# BK_VLLM_KEEP     libraries that have to exist: their absence means that upstream has renamed them
# BK_VLLM_DROP     sources of no use on the GPU target; each has to be there, for the same reason
# BK_VLLM_ABSENT   directory of what stands in for absent dependencies; it has nothing to compile

if(NOT PROJECT_NAME STREQUAL "vllm_extensions")
  return()
endif()

# Sets BK_VLLM_FOUND to those of BK_VLLM_DROP that the library had.
function(bk_vllm_trim target)
  get_target_property(sources ${target} SOURCES)
  set(kept "")
  set(found "")
  foreach(source IN LISTS sources)
    cmake_path(IS_PREFIX BK_VLLM_ABSENT "${source}" NORMALIZE is_absent)
    if(is_absent OR source IN_LIST BK_VLLM_DROP)
      message(STATUS "buildkit: without ${source}")
      list(APPEND found "${source}")
    else()
      list(APPEND kept "${source}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${kept}")
  set(BK_VLLM_FOUND "${found}" PARENT_SCOPE)
endfunction()

# The headers come from elsewhere than upstream's, so their version is compared with upstream's pin.
function(bk_vllm_check_cutlass)
  file(STRINGS "${CUTLASS_INCLUDE_DIR}/cutlass/version.h" lines REGEX "^#define CUTLASS_M|_PATCH ")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  list(SUBLIST numbers 0 3 numbers)
  list(JOIN numbers "." found)
  if(NOT CUTLASS_REVISION STREQUAL "v${found}")
    message(FATAL_ERROR
      "buildkit: the recipe hands over CUTLASS ${found}, upstream wants ${CUTLASS_REVISION}")
  endif()
  message(STATUS "buildkit: CUTLASS ${found}, as upstream wants it")
endfunction()

function(bk_vllm_finish)
  bk_vllm_check_cutlass()
  set(found "")
  foreach(target IN LISTS BK_VLLM_KEEP)
    if(NOT TARGET ${target})
      message(FATAL_ERROR "buildkit: the project has no library ${target} any more")
    endif()
    bk_vllm_trim(${target})
    list(APPEND found ${BK_VLLM_FOUND})
  endforeach()
  foreach(source IN LISTS BK_VLLM_DROP)
    if(NOT source IN_LIST found)
      message(FATAL_ERROR "buildkit: no library has the source ${source} any more")
    endif()
  endforeach()
endfunction()

cmake_language(DEFER CALL bk_vllm_finish)
