// All of a library that is taken out of the installation again.
extern "C" int bk_sgl_empty() { return 0; }
