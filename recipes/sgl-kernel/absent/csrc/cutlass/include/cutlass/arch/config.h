// Nothing of CUTLASS. CMake looks for SM103 in here, and adds it where it is missing.
