"""What no observer can beat, with its assumptions as fields, and never confused with an estimate.

| module | what is there |
|---|---|
| `certificate` | `Certificate`, which binds every observer; `AgainstAttackersTried`, which only looks like one |
| `equivocation` | where H(u\\|r) came from: known (may be certified) or an attacker's cross-entropy (may not) |
| `fano` | Fano's inequality inverted exactly; plain numbers |
| `tappfl_theorems` | TAPPFL's Theorems 1 and 2, printed and corrected; plain numbers |
| `gaussian_channel` | clip to a ball, add Gaussian noise: ceilings on advantage and accuracy, and σ for a target |
| `gaussian_release` | `GaussianRelease`: that channel's certificates, with their assumptions |
| `rate` | certificates from code lengths and a helper on held-out records, for either observer |
| `information_privacy` | ε of information privacy and attribute DP of discrete channels; Attri-Fed's bounds |
| `epsilon_audit` | lower bounds on ε by counting events: evidence of leakage, never of privacy |
| `differential_privacy` | ε of Gaussian, Laplace and DP-SGD by closed forms and accountants; calibration |
| `advantage` | conversions, and ceilings on advantage and accuracy under (ε, δ) |
| `confidence` | one-sided confidence bounds on means, proportions and entropies |
"""

from fedveil.certificates.advantage import (
    advantage_from_balanced_accuracy,
    balanced_accuracy_from_advantage,
    certify_accuracy_from_dp,
    dp_accuracy_bound,
    dp_advantage_bound,
    dp_balanced_accuracy_bound,
    replace_one_from_add_remove,
)
from fedveil.certificates.certificate import AgainstAttackersTried, Certificate
from fedveil.certificates.differential_privacy import (
    dp_sgd_epsilon,
    dp_sgd_epsilon_at_order,
    dp_sgd_noise_multiplier,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    laplace_epsilon,
    laplace_scale,
)
from fedveil.certificates.epsilon_audit import EpsilonLowerBound, audit_attribute_dp, audit_information_privacy
from fedveil.certificates.equivocation import (
    AttackerCrossEntropy,
    KnownEquivocation,
    certify_accuracy,
    estimate_accuracy,
)
from fedveil.certificates.fano import (
    fano_accuracy_bound,
    fano_error_bound,
    information_accuracy_bound,
    inverse_binary_entropy,
)
from fedveil.certificates.gaussian_channel import (
    gaussian_accuracy_bound,
    gaussian_advantage_bound,
    gaussian_balanced_accuracy_bound,
    sigma_for_accuracy,
    sigma_for_advantage,
)
from fedveil.certificates.gaussian_release import GaussianRelease
from fedveil.certificates.information_privacy import (
    attribute_dp_delta,
    attribute_dp_epsilon,
    certify_information_privacy,
    corrected_leakage_bound,
    information_privacy_epsilon,
    is_attribute_dp,
    largest_leakage,
    post_process,
    printed_corollary1_epsilon,
    printed_leakage_bound,
)
from fedveil.certificates.rate import (
    HeldOutRate,
    certify_information,
    certify_rate_accuracy,
    known_equivocation,
    rate_information_bound,
    with_escape,
)
from fedveil.certificates.tappfl_theorems import (
    corrected_theorem1_error_bound,
    corrected_theorem2_accuracy_bound,
    printed_theorem1_error_bound,
    printed_theorem2_accuracy_bound,
)

__all__ = [
    "AgainstAttackersTried",
    "AttackerCrossEntropy",
    "Certificate",
    "EpsilonLowerBound",
    "GaussianRelease",
    "HeldOutRate",
    "KnownEquivocation",
    "advantage_from_balanced_accuracy",
    "attribute_dp_delta",
    "attribute_dp_epsilon",
    "audit_attribute_dp",
    "audit_information_privacy",
    "balanced_accuracy_from_advantage",
    "certify_accuracy",
    "certify_accuracy_from_dp",
    "certify_information",
    "certify_information_privacy",
    "certify_rate_accuracy",
    "corrected_leakage_bound",
    "corrected_theorem1_error_bound",
    "corrected_theorem2_accuracy_bound",
    "dp_accuracy_bound",
    "dp_advantage_bound",
    "dp_balanced_accuracy_bound",
    "dp_sgd_epsilon",
    "dp_sgd_epsilon_at_order",
    "dp_sgd_noise_multiplier",
    "estimate_accuracy",
    "fano_accuracy_bound",
    "fano_error_bound",
    "gaussian_accuracy_bound",
    "gaussian_advantage_bound",
    "gaussian_balanced_accuracy_bound",
    "gaussian_epsilon",
    "gaussian_noise_multiplier",
    "information_accuracy_bound",
    "information_privacy_epsilon",
    "inverse_binary_entropy",
    "is_attribute_dp",
    "known_equivocation",
    "laplace_epsilon",
    "laplace_scale",
    "largest_leakage",
    "post_process",
    "printed_corollary1_epsilon",
    "printed_leakage_bound",
    "printed_theorem1_error_bound",
    "printed_theorem2_accuracy_bound",
    "rate_information_bound",
    "replace_one_from_add_remove",
    "sigma_for_accuracy",
    "sigma_for_advantage",
    "with_escape",
]
