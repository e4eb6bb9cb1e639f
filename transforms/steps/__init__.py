"""Steps that change records on the way: the user's own rules, in the order of a list.

Each step takes one record and returns its results. Steps are applied before records are
normalized and adapted to the target.
"""

from feedferry.transforms.steps.step import AppliedSteps, StepInputs, StepResult
from feedferry.transforms.steps.step_list import StepConfig, Steps, read_steps

__all__ = ["AppliedSteps", "StepConfig", "StepInputs", "StepResult", "Steps", "read_steps"]
