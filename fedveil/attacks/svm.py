"""Support vector machine with a Gaussian kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fedveil.attacks.attack import Attack, Labelled, evenly
from fedveil.core.arrays import FloatArray, FloatingArray, IntArray
from fedveil.core.randomness import numpy_generator
from fedveil.core.threads import single_thread

_CHOOSE_FROM = 2_000
"""Width and penalty are chosen with models fitted on at most this many vectors."""

Single = npt.NDArray[np.float32]

_ROWS_AT_ONCE = 2_048
"""How many vectors are compared with the learned ones at a time: 40 MB of kernel values with 5,000 learned vectors."""


class RBFSVM(Attack):
    """Class-weighted least-squares SVM with a Gaussian kernel (Suykens and Vandewalle 1999) on at most 5,000 vectors.

    The squared loss makes the fit one linear system, which takes a second where the hinge loss takes several and
    reads as much; scoring is one product of matrices. Width and penalty are chosen on validation, with models
    fitted on half of the vectors, 2,000 at most; the final model is fitted on all of them.
    """

    name = "rbf-svm"
    most_vectors = 5_000
    widths = (1.0, 0.3)
    """The kernel's γ, in units of 1 / (number of columns × variance)."""
    penalties = (1.0, 10.0, 100.0)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Choose width and penalty, then fit on a part of the auxiliary vectors that is drawn evenly over classes."""
        self.notes = ()
        part = self.capped(auxiliary, self.most_vectors, classes)
        rng = numpy_generator(self.seed, "selection")
        with single_thread():
            learned = _single(part.vectors)
            # not by numpy's own variance, which copies the vectors in double precision
            variance = float(np.vdot(learned, learned)) / learned.size - float(learned.mean(dtype=np.float64)) ** 2
            unit = 1 / (learned.shape[1] * variance) if variance > 0 else 1.0
            few = evenly(part, min(max(2, len(part) // 2), _CHOOSE_FROM), classes, rng)
            width, penalty = self._choose(few, evenly(validation, 5_000, classes, rng), classes, unit)
            del few  # before the large kernel
            self.gamma_ = unit * width
            self.learned_ = learned
            kernel = _kernel(learned, learned, self.gamma_)
            self.weights_ = _solved(kernel, part.codes, classes, penalty)

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return one margin per class, in blocks, so that memory does not grow with the number of vectors."""
        answers = np.empty((len(vectors), self.weights_.shape[1]))
        with single_thread():
            for start in range(0, len(vectors), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                kernel = _kernel(_single(vectors[rows]), self.learned_, self.gamma_)
                answers[rows] = _margins(kernel, self.weights_)
        return answers

    def _choose(self, few: Labelled, held_out: Labelled, classes: int, unit: float) -> tuple[float, float]:
        """Return the width and penalty with the highest balanced accuracy on validation; ties go to the first."""
        learned, asked = _single(few.vectors), _single(held_out.vectors)
        best, choice = -1.0, (self.widths[0], self.penalties[0])
        for width in self.widths:
            kernel, beside = (_kernel(rows, learned, unit * width) for rows in (learned, asked))
            for penalty in self.penalties:
                weights = _solved(kernel.copy(), few.codes, classes, penalty)
                merit = _balanced_accuracy(held_out.codes, _margins(beside, weights).argmax(axis=1), classes)
                if merit > best:
                    best, choice = merit, (width, penalty)
        return choice


def _single(vectors: npt.NDArray[np.floating]) -> Single:
    return np.asarray(vectors, dtype=np.float32)


def _kernel(a: Single, b: Single, gamma: float) -> Single:
    """Return exp(−γ‖a − b‖²) for all pairs of rows, from one product of matrices and without a second large array."""
    kernel: Single = a @ b.T
    kernel *= np.float32(2 * gamma)
    for rows, shape in ((a, (-1, 1)), (b, (1, -1))):
        kernel -= np.float32(gamma) * np.einsum("ij,ij->i", rows, rows).reshape(shape)
    np.minimum(kernel, 0, out=kernel)  # rounding must not make two vectors more alike than equal
    return np.exp(kernel, out=kernel)


def _solved(kernel: Single, codes: IntArray, classes: int, penalty: float) -> Single:
    """Return the weights of the learned vectors for each class; the kernel is overwritten.

    They minimise Σ wᵢ (yᵢ − f(xᵢ))² + penalty ‖f‖² with y = ±1 and weights w that are even over classes; a constant
    kernel is added for the offset.
    """
    n = len(codes)
    weight = n / (classes * np.maximum(np.bincount(codes, minlength=classes), 1))
    targets = np.where(codes[:, None] == np.arange(classes), 1, -1).astype(np.float32)
    kernel += 1
    diagonal = kernel.diagonal().copy()
    while True:
        kernel[np.diag_indices(n)] = diagonal + penalty / weight[codes]
        try:
            # in place: the factor takes the lower triangle (the upper one of the transpose, as LAPACK stores it)
            factor = cho_factor(kernel.T, lower=False, overwrite_a=True, check_finite=False)
            return np.asarray(cho_solve(factor, targets, check_finite=False), dtype=np.float32)
        except LinAlgError:  # many equal vectors of a rare class, in single precision
            penalty *= 10
            for column in range(n):
                kernel[column + 1 :, column] = kernel[column, column + 1 :]


def _margins(kernel: Single, weights: Single) -> FloatArray:
    return np.asarray(kernel @ weights + weights.sum(axis=0), dtype=np.float64)


def _balanced_accuracy(codes: IntArray, guesses: IntArray, classes: int) -> float:
    counts = np.bincount(codes, minlength=classes)
    right = np.bincount(codes[codes == guesses], minlength=classes)
    return float((right / np.maximum(counts, 1))[counts > 0].mean())
