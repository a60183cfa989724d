"""Which of aten's operators an exported graph may call; all others are refused.

These compute tensors from tensors. Operators that open files (`from_file`), look at raw storage (`as_strided`, `set_`)
or leave checks out (`_unsafe…`) are not among them, and neither are those that draw random numbers.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


PLAIN = _words(
    """
    abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d add addmm
    addmv alias all amax amin any arange argmax argmin asin asinh atan atan2 atanh avg_pool1d avg_pool2d baddbmm
    batch_norm bitwise_and bitwise_not bitwise_or bmm cat ceil celu chunk clamp clamp_max clamp_min clone
    constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d convolution copy cos cosh
    cumsum detach div dot dropout einsum elu embedding eq erf exp expand expand_as expm1 feature_dropout flatten
    flip floor floor_divide fmod full full_like gather ge gelu glu group_norm gru gt hardsigmoid hardswish
    hardtanh index index_select instance_norm isinf isnan layer_norm le leaky_relu lift_fresh_copy linear log
    log10 log1p log2 log_sigmoid log_softmax _log_softmax logical_and logical_not logical_or logical_xor logit
    logsumexp lstm lt masked_fill matmul max max_pool1d max_pool2d max_pool2d_with_indices max_pool3d maximum
    mean min minimum mish mm movedim mul mv nan_to_num narrow _native_batch_norm_legit_no_training
    native_group_norm native_layer_norm ne neg new_full new_ones new_zeros norm numpy_T one_hot ones ones_like
    outer pad permute pixel_shuffle pow prelu prod reciprocal relu relu6 remainder repeat reshape rms_norm roll
    round rsqrt rsub scalar_tensor scaled_dot_product_attention select selu sigmoid sign silu sin sinh slice
    softmax _softmax softplus softshrink sort split split_with_sizes sqrt square squeeze stack std sub
    sum sym_numel sym_size t tan tanh threshold tile to _to_copy topk transpose tril triu true_divide
    trunc type_as unbind unflatten unsqueeze upsample_bilinear2d upsample_nearest2d var view where zeros
    zeros_like
    """
)
"""Operators that leave their inputs as they are."""

IN_PLACE = _words(
    """
    add_ sub_ mul_ div_ relu_ relu6_ hardtanh_ hardswish_ hardsigmoid_ leaky_relu_ elu_ celu_ selu_ silu_ mish_
    sigmoid_ tanh_ clamp_ clamp_min_ masked_fill_ dropout_ detach_
    """
)
"""Operators that change their input, as nn.ReLU(inplace=True) does."""

CHECKS = _words(
    """
    _assert_scalar _assert_tensor_metadata _assert_async sym_constrain_range sym_constrain_range_for_size
    """
)
"""The exporter's assertions about shapes, without results: left out."""

RANDOM_IN_TRAINING = {
    "batch_norm": "training",
    "dropout": "train",
    "dropout_": "train",
    "feature_dropout": "train",
    "gru": "train",
    "lstm": "train",
}
"""Operators whose results depend on chance or on the batch where the named argument is true."""
