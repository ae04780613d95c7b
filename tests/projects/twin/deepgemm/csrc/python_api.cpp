extern "C" int deep_gemm() { return 9; }
