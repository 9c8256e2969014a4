"""An image with holes: each colour channel is a matrix, and half of its pixels are missing.

Columns next to each other look alike, so the three channels are put side by side and completed as one low-rank matrix.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import lorank

image = load_sample_image("china.jpg")[:300:2, 100:500:2].astype(float) / 255
m, n, _ = image.shape
whole = image.transpose(0, 2, 1).reshape(m, 3 * n)
gone = np.random.default_rng(0).random((m, n)) < 0.5
holes = np.where(np.tile(gone, 3), np.nan, whole)

model = lorank.MatrixCompletion(rank=30, lam=0.3, biases=True, random_state=0).fit(holes)
filled = np.clip(model.complete(), 0, 1)
error = np.sqrt(np.mean((filled - whole)[np.isnan(holes)] ** 2))
plain = np.sqrt(np.mean((np.nanmean(holes) - whole)[np.isnan(holes)] ** 2))
print(f"{gone.mean():.0%} of {m} x {n} pixels gone; error {error:.3f}, with their mean instead {plain:.3f}")

figure, panels = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
pictures = {"original": whole, "observed": np.nan_to_num(holes, nan=1.0), "completed": filled}
for panel, (title, picture) in zip(panels, pictures.items()):
    panel.imshow(picture.reshape(m, 3, n).transpose(0, 2, 1))
    panel.set_title(title)
    panel.axis("off")
figure.savefig("inpainting.png", dpi=110)
