"""A climate map: temperatures at stations, most of them never measured, drawn as a map.

The stations are made up: a season, four patterns of weather that vary smoothly over the map, and noise. Low rank alone
cannot fill a row without a single value; a prior over the places can, and the model estimates its own error.
"""

import numpy as np

from lorank.plots import figure
from lorank.spatial import SpatialCompletion

rng = np.random.default_rng(0)
months = np.datetime64("2010-01") + np.arange(120)
west_east, south_north = np.meshgrid(np.linspace(-120, -75, 46), np.linspace(28, 50, 23))
lat = np.r_[rng.uniform(28, 50, 150), south_north.ravel()]  # stations first, then the points of the map
lon = np.r_[rng.uniform(-120, -75, 150), west_east.ravel()]

# The truth, in degrees: colder and with more of a season in the north, and patterns that persist for some months.
patterns = 1.5 * np.cos(np.column_stack([lat, lon]) @ rng.normal(0, 0.12, (2, 4)) + rng.uniform(0, 6, 4))
weather = rng.standard_normal((4, months.size))
for t in range(1, months.size):
    weather[:, t] = 0.7 * weather[:, t - 1] + 0.7 * weather[:, t]
season = -np.cos(2 * np.pi * (np.arange(months.size) - 0.5) / 12)
truth = (30 - 0.6 * (lat - 20))[:, None] + np.outer(6 + 0.3 * (lat - 28), season) + patterns @ weather

readings = truth[:150] + 0.3 * rng.standard_normal((150, months.size))
measured = np.where(rng.random(readings.shape) < 0.1, np.nan, readings)  # gaps
measured[60:] = np.nan  # and ninety stations that were never read
model = SpatialCompletion(kernel="matern32", rank=8).fit(measured, lat[:150], lon[:150], months)

off = np.sqrt(np.mean((model.predict()[60:] - readings[60:]) ** 2, axis=1))
print(f"at 90 stations never read: error {np.sqrt(np.mean(off**2)):.2f} degC,", end=" ")
print(f"as estimated beforehand {np.sqrt(np.mean(model.error_[60:] ** 2)):.2f} degC")
average = np.tile(np.nanmean(measured, axis=0), (90, 1))
print(f"with the mean of all stations instead {np.sqrt(np.mean((average - readings[60:]) ** 2)):.2f} degC")

drawn, panels = figure(3, width=4.6, height=3.4)
month = 30
field = model.predict_at(lat[150:], lon[150:])[:, month]
levels = np.arange(np.floor(truth[:, month].min()), truth[:, month].max() + 1)
shades = {"vmin": levels[0], "vmax": levels[-1], "cmap": "viridis"}
for panel, picture, title in ((panels[0], field, "from 60 stations"), (panels[1], truth[150:, month], "the truth")):
    shown = panel.contourf(west_east, south_north, picture.reshape(west_east.shape), levels, extend="both", **shades)
    panel.set(title=f"{months[month]}, {title}", xlabel="longitude", ylabel="latitude")
panels[0].scatter(lon[:60], lat[:60], c=measured[:60, month], s=18, edgecolors="white", linewidths=0.6, **shades)
drawn.colorbar(shown, ax=panels[1], label="degC")
panels[2].plot(off, model.error_[60:], "o", markersize=4)
panels[2].axline((off.mean(), off.mean()), slope=1, color="0.5", linewidth=0.8)
panels[2].set(title="stations never read", xlabel="error, degC", ylabel="estimated error, degC")
drawn.savefig("climate_map.png", dpi=110)
