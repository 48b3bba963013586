"""The rival, on the same bars and orders. Runs under a Python that has pyqlib 0.9.7, never under ours; prints one JSON line.

usage: qlib_rival.py FOLDER env|rollout|fit|fills [--episodes N]

FOLDER holds ``bars.npz`` (close, volume: (instruments, days, ticks); features: the same with 10 columns) and ``orders.npz``
(instrument, day, side, quantity; whole-day orders), as ``flows.bench.scenario`` writes them. QlibRL's fastest data format is
used (its "handler" pickles), its just-in-time compilation is left out of the timings, and its shipped
CurrentStepStateInterpreter, which crashes (a bool has no iinfo; the last step lies outside its own space), is mended in a
subclass with the same fields.
"""
# mypy: ignore-errors
# ruff: noqa: E402, NPY002
# Its imports are not installed here, and come after the variables that they read; it draws from NumPy's global generator.

import argparse
import contextlib
import gc
import io
import json
import logging
import multiprocessing
import os
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

with contextlib.redirect_stderr(io.StringIO()):
    import gym

gym.logger.set_level(50)
import numpy as np
import pandas as pd
import torch
from qlib.backtest.decision import Order, OrderDir
from qlib.data.dataset import DatasetH
from qlib.data.dataset.handler import DataHandler
from qlib.data.dataset.loader import StaticDataLoader
from qlib.rl.data.native import HandlerProcessedDataProvider
from qlib.rl.order_execution import (
    PPO,
    CategoricalActionInterpreter,
    CurrentStepStateInterpreter,
    FullHistoryStateInterpreter,
    PAPenaltyReward,
    Recurrent,
    SingleAssetOrderExecutionSimple,
    TwapRelativeActionInterpreter,
)
from qlib.rl.order_execution.policy import NonLearnablePolicy
from qlib.rl.trainer import Trainer, TrainingVessel, backtest
from qlib.rl.utils import CsvWriter, EnvWrapper, LogCollector
from tianshou.data import Batch, VectorReplayBuffer

FEATURES = ["$high", "$low", "$open", "$close", "$volume"]
TICKS_PER_STEP = 30
HIDDEN = 64


def session_ticks(day, num_ticks):
    morning = pd.date_range(day + pd.Timedelta("9:30:00"), periods=num_ticks // 2, freq="min")
    return morning.append(pd.date_range(day + pd.Timedelta("13:00:00"), periods=num_ticks - num_ticks // 2, freq="min"))


def write_handlers(folder, bars, days):
    """Write the pickled datasets that HandlerProcessedDataProvider reads."""
    for sub in ("backtest", "feature"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    times = pd.DatetimeIndex(np.concatenate([session_ticks(day, bars["close"].shape[2]) for day in days]))
    names = FEATURES + [name + "_1" for name in FEATURES]
    for index in range(bars["close"].shape[0]):
        instrument = f"SH{600000 + index}"
        rows = pd.MultiIndex.from_arrays([[instrument] * len(times), times], names=["instrument", "datetime"])
        prices = pd.DataFrame({"$close0": bars["close"][index].ravel(), "$volume0": bars["volume"][index].ravel()}, index=rows)
        features = pd.DataFrame(bars["features"][index].reshape(len(times), -1), index=rows, columns=names)
        for sub, frame in (("backtest", prices), ("feature", features)):
            handler = DataHandler(data_loader=StaticDataLoader(frame))
            dataset = DatasetH(handler, segments={"all": (days[0], days[-1] + pd.Timedelta("1D"))})
            dataset.config(dump_all=True, recursive=True)
            dataset.to_pickle(folder / sub / f"{instrument}.pkl")


class MendedCurrentStep(CurrentStepStateInterpreter):
    def interpret(self, state):
        shown = super().interpret(state)
        return {
            "acquiring": np.array(int(shown["acquiring"]), dtype=np.int32),
            "cur_step": np.array(min(shown["cur_step"], self.max_step - 1), dtype=np.int32),
            "num_step": np.array(shown["num_step"], dtype=np.int32),
            "target": np.array(shown["target"], dtype=np.float32),
            "position": np.array(shown["position"], dtype=np.float32),
        }


class AllOnes(NonLearnablePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.ones(len(batch), dtype=np.float32), state=state)


def run_env(simulator, state, action, orders, reward):
    environment = EnvWrapper(simulator, state, action, iter(orders), reward, logger=LogCollector())
    steps = 0
    for _ in orders:
        environment.reset()
        done = False
        while not done:
            _, _, done, _ = environment.step(np.float32(1.0))
            steps += 1
    return steps


def run_rollout(simulator, state, action, orders, reward, folder):
    counted = {"steps": 0}
    original = CsvWriter.on_env_step

    def on_env_step(self, *args, **kwargs):
        counted["steps"] += 1
        return original(self, *args, **kwargs)

    CsvWriter.on_env_step = on_env_step
    policy = AllOnes(state.observation_space, action.action_space)
    backtest(
        simulator,
        state,
        action,
        orders,
        policy,
        CsvWriter(folder / "written"),
        reward=reward,
        finite_env_type="subproc",
        concurrency=2,
    )
    return counted["steps"]


def run_fit(simulator, state, action, orders, reward, episodes):
    network = Recurrent(state.observation_space, hidden_dim=HIDDEN)
    policy = PPO(network, state.observation_space, action.action_space, 1e-4)
    vessel = TrainingVessel(
        simulator_fn=simulator,
        state_interpreter=state,
        action_interpreter=action,
        policy=policy,
        reward=reward,
        train_initial_states=orders,
        episode_per_iter=episodes,
        update_kwargs={"batch_size": 256, "repeat": 1},
    )
    trainer = Trainer(max_iters=1, finite_env_type="dummy", concurrency=2)
    trainer.fit(vessel)
    return trainer.current_episode


def run_fills(simulator, orders, actions, folder):
    """Execute scripted fractions of the order; write every tick's fill and each order's price advantage."""
    interpreter = CategoricalActionInterpreter(4, max_step=actions.shape[1])
    fills = np.zeros((len(orders), simulator.keywords["num_ticks"]))
    advantage = np.full(len(orders), np.nan)
    build = partial(simulator.func, **{k: v for k, v in simulator.keywords.items() if k != "num_ticks"})
    for row, order in enumerate(orders):
        episode = build(order)
        while not episode.done():
            seen = episode.get_state()
            # The interpreter reads the step number from its environment; outside one the last step is forced here.
            last = seen.cur_step >= actions.shape[1] - 1
            wanted = (
                seen.position
                if last
                else min(seen.position, order.amount * interpreter.action_values[actions[row, seen.cur_step]])
            )
            episode.step(wanted)
        history = episode.get_state().history_exec
        fills[row, : len(history)] = history["deal_amount"].to_numpy()
        advantage[row] = episode.get_state().metrics["pa"]
    np.savez(folder / "rival_fills.npz", fills=fills, advantage=advantage)
    return int((fills > 0).sum())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=["env", "rollout", "fit", "fills"])
    parser.add_argument("--episodes", type=int, default=300)
    arguments = parser.parse_args()
    folder = arguments.folder
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    bars = dict(np.load(folder / "bars.npz"))
    table = np.load(folder / "orders.npz")
    days = pd.bdate_range("2021-01-04", periods=bars["close"].shape[1])
    num_ticks = bars["close"].shape[2]
    if not (folder / "handler").exists():
        write_handlers(folder / "handler", bars, days)
    orders = []
    for instrument, day, side, quantity in zip(table["instrument"], table["day"], table["side"], table["quantity"], strict=True):
        start = days[day] + pd.Timedelta("9:30:00")
        end = session_ticks(days[day], num_ticks)[-1] + pd.Timedelta("1min")
        direction = OrderDir.BUY if side > 0 else OrderDir.SELL
        orders.append(Order(f"SH{600000 + instrument}", float(quantity), direction, start, end))
    columns = {"feature_columns_today": ["$close0", "$volume0"], "feature_columns_yesterday": []}
    simulator = partial(SingleAssetOrderExecutionSimple, data_dir=folder / "handler", ticks_per_step=TICKS_PER_STEP, **columns)
    steps = num_ticks // TICKS_PER_STEP
    reward = PAPenaltyReward(penalty=4.0, scale=0.01)
    provider = HandlerProcessedDataProvider(str(folder / "handler"), FEATURES, [c + "_1" for c in FEATURES])
    full = FullHistoryStateInterpreter(steps, num_ticks, 5, provider)
    # numba's kernels in its tianshou compile for seconds in every process: outside the timing, for both sides.
    VectorReplayBuffer(4, 2)
    PPO(Recurrent(full.observation_space, hidden_dim=8), full.observation_space, gym.spaces.Discrete(2), 1e-3)
    gc.collect()
    before = usage()
    started = time.perf_counter()
    chosen = orders[: arguments.episodes]
    if arguments.mode == "env":
        count = run_env(simulator, MendedCurrentStep(steps), TwapRelativeActionInterpreter(), chosen, reward)
    elif arguments.mode == "rollout":
        count = run_rollout(simulator, full, TwapRelativeActionInterpreter(), chosen, reward, folder)
    elif arguments.mode == "fit":
        count = run_fit(simulator, full, CategoricalActionInterpreter(4, max_step=steps), orders, reward, arguments.episodes)
    else:
        with_ticks = partial(simulator, num_ticks=num_ticks)
        count = run_fills(with_ticks, chosen, np.load(folder / "actions.npy")[: len(chosen)], folder)
    seconds = time.perf_counter() - started
    gc.collect()
    for child in multiprocessing.active_children():  # it never closes its workers; their CPU time counts once they are reaped
        child.join(5)
    print(
        json.dumps(
            {
                "mode": arguments.mode,
                "count": count,
                "seconds": seconds,
                "cpu_seconds": usage() - before,
                "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)  # its daemon threads would keep the process for seconds


def usage():
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
