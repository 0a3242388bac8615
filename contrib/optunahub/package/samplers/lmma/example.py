"""A study of twenty parameters with LmmaSampler, loaded as a package of OptunaHub."""

import optuna
import optunahub


def objective(trial):
    """Return the distance from a point that the sampler does not know."""
    x = [trial.suggest_float(f"x{i}", -5, 5) for i in range(20)]
    return sum((v - 1) ** 2 for v in x)


if __name__ == "__main__":
    LmmaSampler = optunahub.load_module("samplers/lmma").LmmaSampler
    study = optuna.create_study(sampler=LmmaSampler(seed=1))
    study.optimize(objective, n_trials=1000)
    print(study.best_value)
