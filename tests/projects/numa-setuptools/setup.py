from setuptools import Extension, setup

setup(ext_modules=[Extension("numa_setuptools._c", ["c.c"], libraries=["numa"])])
