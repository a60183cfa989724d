"""Bounds that no observer can beat, with their assumptions as fields, and never confused with an estimate.

| module | contents |
|---|---|
| `certificate` | `Certificate`, which holds for every observer; `AgainstAttackersTried`, which does not |
| `equivocation` | H(u\\|r) with its source: known (can be certified) or an attacker's cross-entropy (cannot) |
| `fano` | Fano's inequality inverted exactly; plain numbers |
| `tappfl_theorems` | TAPPFL's Theorems 1 and 2, printed and corrected; plain numbers |
| `gaussian_channel` | clip to a ball, add Gaussian noise: ceilings on advantage and accuracy, σ for a target |
| `rate` | certificates from code lengths and a helper on held-out records, for either observer |
| `code_counts` | certificates from counts of released codes on held-out people |
| `information_privacy` | ε of information privacy and attribute DP of discrete channels; Attri-Fed's bounds |
| `epsilon_audit` | lower bounds on ε by counting events: evidence of leakage, never of privacy |
| `differential_privacy` | ε of Gaussian, Laplace and DP-SGD by closed forms and accountants; calibration |
| `advantage` | conversions, and ceilings on advantage and accuracy under (ε, δ) |
| `confidence` | one-sided confidence bounds on means, proportions and entropies |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.certificates.advantage import balanced_accuracy_from_advantage as balanced_accuracy_from_advantage
    from fedveil.certificates.advantage import certify_accuracy_from_dp as certify_accuracy_from_dp
    from fedveil.certificates.advantage import dp_accuracy_bound as dp_accuracy_bound
    from fedveil.certificates.advantage import dp_advantage_bound as dp_advantage_bound
    from fedveil.certificates.advantage import dp_balanced_accuracy_bound as dp_balanced_accuracy_bound
    from fedveil.certificates.advantage import replace_one_from_add_remove as replace_one_from_add_remove
    from fedveil.certificates.certificate import AgainstAttackersTried as AgainstAttackersTried
    from fedveil.certificates.certificate import Certificate as Certificate
    from fedveil.certificates.certificate import at_shares as at_shares
    from fedveil.certificates.code_counts import certify_chances as certify_chances
    from fedveil.certificates.code_counts import certify_codes as certify_codes
    from fedveil.certificates.confidence import conditional_entropy_lower_bound as conditional_entropy_lower_bound
    from fedveil.certificates.confidence import entropy_upper_bound as entropy_upper_bound
    from fedveil.certificates.confidence import mean_upper_bound as mean_upper_bound
    from fedveil.certificates.confidence import proportion_bounds as proportion_bounds
    from fedveil.certificates.differential_privacy import composed_epsilon as composed_epsilon
    from fedveil.certificates.differential_privacy import dp_sgd_epsilon as dp_sgd_epsilon
    from fedveil.certificates.differential_privacy import dp_sgd_epsilon_at_order as dp_sgd_epsilon_at_order
    from fedveil.certificates.differential_privacy import dp_sgd_noise_multiplier as dp_sgd_noise_multiplier
    from fedveil.certificates.differential_privacy import gaussian_epsilon as gaussian_epsilon
    from fedveil.certificates.differential_privacy import gaussian_noise_multiplier as gaussian_noise_multiplier
    from fedveil.certificates.differential_privacy import laplace_epsilon as laplace_epsilon
    from fedveil.certificates.differential_privacy import laplace_scale as laplace_scale
    from fedveil.certificates.epsilon_audit import EpsilonLowerBound as EpsilonLowerBound
    from fedveil.certificates.epsilon_audit import audit_attribute_dp as audit_attribute_dp
    from fedveil.certificates.epsilon_audit import audit_information_privacy as audit_information_privacy
    from fedveil.certificates.equivocation import AttackerCrossEntropy as AttackerCrossEntropy
    from fedveil.certificates.equivocation import KnownEquivocation as KnownEquivocation
    from fedveil.certificates.equivocation import certify_accuracy as certify_accuracy
    from fedveil.certificates.equivocation import estimate_accuracy as estimate_accuracy
    from fedveil.certificates.fano import fano_accuracy_bound as fano_accuracy_bound
    from fedveil.certificates.fano import fano_error_bound as fano_error_bound
    from fedveil.certificates.fano import information_accuracy_bound as information_accuracy_bound
    from fedveil.certificates.fano import inverse_binary_entropy as inverse_binary_entropy
    from fedveil.certificates.gaussian_channel import GaussianRelease as GaussianRelease
    from fedveil.certificates.gaussian_channel import gaussian_accuracy_bound as gaussian_accuracy_bound
    from fedveil.certificates.gaussian_channel import gaussian_advantage_bound as gaussian_advantage_bound
    from fedveil.certificates.gaussian_channel import (
        gaussian_balanced_accuracy_bound as gaussian_balanced_accuracy_bound,
    )
    from fedveil.certificates.gaussian_channel import sigma_for_accuracy as sigma_for_accuracy
    from fedveil.certificates.gaussian_channel import sigma_for_advantage as sigma_for_advantage
    from fedveil.certificates.information_privacy import attribute_dp_delta as attribute_dp_delta
    from fedveil.certificates.information_privacy import attribute_dp_epsilon as attribute_dp_epsilon
    from fedveil.certificates.information_privacy import certify_information_privacy as certify_information_privacy
    from fedveil.certificates.information_privacy import corrected_leakage_bound as corrected_leakage_bound
    from fedveil.certificates.information_privacy import (
        dp_epsilon_from_information_privacy as dp_epsilon_from_information_privacy,
    )
    from fedveil.certificates.information_privacy import information_privacy_epsilon as information_privacy_epsilon
    from fedveil.certificates.information_privacy import (
        information_privacy_epsilon_from_dp as information_privacy_epsilon_from_dp,
    )
    from fedveil.certificates.information_privacy import is_attribute_dp as is_attribute_dp
    from fedveil.certificates.information_privacy import largest_leakage as largest_leakage
    from fedveil.certificates.information_privacy import post_process as post_process
    from fedveil.certificates.information_privacy import printed_corollary1_epsilon as printed_corollary1_epsilon
    from fedveil.certificates.information_privacy import printed_leakage_bound as printed_leakage_bound
    from fedveil.certificates.rate import HeldOutRate as HeldOutRate
    from fedveil.certificates.rate import certify_information as certify_information
    from fedveil.certificates.rate import certify_rate_accuracy as certify_rate_accuracy
    from fedveil.certificates.rate import known_equivocation as known_equivocation
    from fedveil.certificates.rate import rate_information_bound as rate_information_bound
    from fedveil.certificates.rate import with_escape as with_escape
    from fedveil.certificates.tappfl_theorems import ClassifierConstants as ClassifierConstants
    from fedveil.certificates.tappfl_theorems import corrected_theorem1_error_bound as corrected_theorem1_error_bound
    from fedveil.certificates.tappfl_theorems import (
        corrected_theorem2_accuracy_bound as corrected_theorem2_accuracy_bound,
    )
    from fedveil.certificates.tappfl_theorems import printed_theorem1_error_bound as printed_theorem1_error_bound
    from fedveil.certificates.tappfl_theorems import printed_theorem2_accuracy_bound as printed_theorem2_accuracy_bound
    from fedveil.core.measures import advantage_from_balanced_accuracy as advantage_from_balanced_accuracy

__all__ = lazy(__name__)
