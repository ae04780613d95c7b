# What the options of sgl-kernel cannot say, without a change to its files.
#
# CMake runs this at the end of each project() call (build.project-include of the recipe). When the
# project's own CMakeLists.txt has been read to its end, every target in it gets the GPU target of
# the recipe and no other; libraries that are of no use there become an empty one that is taken
# out of the installation again. All of it is documented CMake: cmake_language(DEFER), target
# properties, install(CODE).
#
# BK_SGL_DROP     libraries of no use on the GPU target
# BK_SGL_KEEP     libraries that have to exist: their absence means that upstream has renamed them
# BK_SGL_ABSENT   directory of what stands in for absent dependencies

if(NOT PROJECT_NAME STREQUAL "sgl-kernel")
  return()
endif()

# Upstream compares this one; not every Torch sets it.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" CUDA_VERSION "${CMAKE_CUDA_COMPILER_VERSION}")

# Torch switches CMAKE_CUDA_ARCHITECTURES off, so it is read here.
string(REGEX MATCH "^[0-9]+[af]?" BK_SGL_CODE "$CACHE{CMAKE_CUDA_ARCHITECTURES}")
if(NOT BK_SGL_CODE)
  message(FATAL_ERROR "buildkit: CMAKE_CUDA_ARCHITECTURES names no GPU target")
endif()

# Where a library goes, or a package that is of no use without it.
set(BK_SGL_PLACE_common_ops_sm90_build "sgl_kernel/sm90")
set(BK_SGL_PLACE_common_ops_sm100_build "sgl_kernel/sm100")
set(BK_SGL_PLACE_flash_ops "sgl_kernel/flash_ops.*")
set(BK_SGL_PLACE_flashmla_ops "sgl_kernel/flashmla_ops.*")
set(BK_SGL_PLACE_deep_gemm_cpp "deep_gemm")

function(bk_sgl_pin target)
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(options)
    string(REGEX REPLACE "(^|;)-gencode=arch=[^;>]*" "\\1" options "${options}")
    string(REGEX REPLACE "(:)-gencode=arch=[^;>]*;?" "\\1" options "${options}")
    string(REGEX REPLACE ";;+" ";" options "${options}")
  else()
    set(options "")
  endif()
  set(code "-gencode=arch=compute_${BK_SGL_CODE},code=sm_${BK_SGL_CODE}")
  list(APPEND options "$<$<COMPILE_LANGUAGE:CUDA>:${code}>")
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${options}" CUDA_ARCHITECTURES OFF)
endfunction()

function(bk_sgl_empty target)
  if(NOT DEFINED BK_SGL_PLACE_${target})
    message(FATAL_ERROR "buildkit: where ${target} is installed is not known")
  endif()
  set_target_properties(${target} PROPERTIES
    SOURCES "${BK_SGL_ABSENT}/empty.cc"
    COMPILE_OPTIONS "" INCLUDE_DIRECTORIES "" LINK_LIBRARIES "" CUDA_ARCHITECTURES OFF)
  set(place "${BK_SGL_PLACE_${target}}")
  install(CODE "
    file(GLOB dropped \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${place}\")
    if(NOT dropped)
      message(FATAL_ERROR \"buildkit: ${target} was not installed at ${place}\")
    endif()
    file(REMOVE_RECURSE \${dropped})")
endfunction()

# common_ops registers three operators of mscclpp, which are for several machines alone: they stay,
# and say that they are absent.
function(bk_sgl_without_mscclpp target)
  get_target_property(sources ${target} SOURCES)
  set(kept "${sources}")
  list(FILTER kept EXCLUDE REGEX "(^|/)mscclpp_allreduce\\.cu$")
  if(kept STREQUAL sources)
    return()
  endif()
  file(READ "${PROJECT_SOURCE_DIR}/include/sgl_kernel_ops.h" header)
  foreach(name mscclpp_generate_unique_id mscclpp_init_context mscclpp_allreduce)
    if(NOT header MATCHES "[^a-z_]${name}\\(")
      message(FATAL_ERROR "buildkit: sgl_kernel_ops.h declares no ${name}")
    endif()
  endforeach()
  list(APPEND kept "${BK_SGL_ABSENT}/mscclpp.cc")
  set_target_properties(${target} PROPERTIES SOURCES "${kept}")
endfunction()

function(bk_sgl_finish)
  foreach(target IN LISTS BK_SGL_KEEP)
    if(NOT TARGET ${target})
      message(FATAL_ERROR "buildkit: the project has no library ${target} any more")
    endif()
  endforeach()
  get_property(targets DIRECTORY "${PROJECT_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(target IN_LIST BK_SGL_DROP)
      bk_sgl_empty(${target})
      message(STATUS "buildkit: without ${target}")
    elseif(type STREQUAL "MODULE_LIBRARY" OR type STREQUAL "SHARED_LIBRARY")
      bk_sgl_pin(${target})
      bk_sgl_without_mscclpp(${target})
      message(STATUS "buildkit: ${target} for sm_${BK_SGL_CODE}")
    endif()
  endforeach()
  if(NOT TARGET flash_ops OR "flash_ops" IN_LIST BK_SGL_DROP)
    install(FILES "${BK_SGL_ABSENT}/flash_ops.py" DESTINATION sgl_kernel)
  endif()
endfunction()

cmake_language(DEFER CALL bk_sgl_finish)
