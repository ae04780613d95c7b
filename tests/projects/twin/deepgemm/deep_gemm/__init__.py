# The twin of DeepGEMM.
