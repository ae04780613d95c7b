find_path(NUMA_INCLUDE_DIRS NAMES numa.h HINTS ${NUMA_ROOT_DIR} PATH_SUFFIXES include)
find_library(NUMA_LIBRARIES NAMES numa HINTS ${NUMA_ROOT_DIR} PATH_SUFFIXES lib)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NUMA DEFAULT_MSG NUMA_INCLUDE_DIRS NUMA_LIBRARIES)
