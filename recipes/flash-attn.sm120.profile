{"profile": 1, "recipe": "flash-attn", "version": "2.8.3.post2", "arch": "sm120", "compiler": "nvcc 13.0.88", "recorded": "on 2 CPUs that other work shared, two at a time, 2026-12-03; 11 of 72 CUDA units"}
{"source": "csrc/flash_attn/flash_api.cpp", "flags": "3ee98ebd21e9fe4b", "seconds": 83.9, "cpu_seconds": 43.8, "peak_mib": 1883, "tail_mib": 214}
{"source": "csrc/flash_attn/src/flash_bwd_hdim32_bf16_causal_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 179.3, "cpu_seconds": 79.3, "peak_mib": 4483, "tail_mib": 1401}
{"source": "csrc/flash_attn/src/flash_bwd_hdim32_bf16_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 208.9, "cpu_seconds": 97.4, "peak_mib": 4558, "tail_mib": 1379}
{"source": "csrc/flash_attn/src/flash_bwd_hdim32_fp16_causal_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 85.9, "cpu_seconds": 62.0, "peak_mib": 4483, "tail_mib": 1222}
{"source": "csrc/flash_attn/src/flash_bwd_hdim32_fp16_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 90.2, "cpu_seconds": 77.6, "peak_mib": 4557, "tail_mib": 1380}
{"source": "csrc/flash_attn/src/flash_bwd_hdim64_bf16_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 131.4, "cpu_seconds": 106.4, "peak_mib": 6172, "tail_mib": 2253}
{"source": "csrc/flash_attn/src/flash_bwd_hdim64_fp16_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 166.5, "cpu_seconds": 112.7, "peak_mib": 6172, "tail_mib": 1708}
{"source": "csrc/flash_attn/src/flash_fwd_hdim32_bf16_causal_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 98.4, "cpu_seconds": 62.9, "peak_mib": 3402, "tail_mib": 946}
{"source": "csrc/flash_attn/src/flash_fwd_hdim32_bf16_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 94.7, "cpu_seconds": 76.8, "peak_mib": 3435}
{"source": "csrc/flash_attn/src/flash_fwd_hdim32_fp16_causal_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 67.3, "cpu_seconds": 55.2, "peak_mib": 3402}
{"source": "csrc/flash_attn/src/flash_fwd_hdim32_fp16_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 160.5, "cpu_seconds": 93.9, "peak_mib": 3434}
{"source": "csrc/flash_attn/src/flash_fwd_hdim64_bf16_sm80.cu", "flags": "406754c0f9a61b78", "seconds": 181.1, "cpu_seconds": 111.8, "peak_mib": 3786}
