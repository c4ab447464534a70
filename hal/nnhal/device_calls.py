"""The calls of a device by name, as faults (``method = "execute"``) and recordings name them."""

from __future__ import annotations

EXECUTE = (
    "PreparedModel.ExecuteSynchronously",
    "PreparedModel.ExecuteSynchronouslyWithConfig",
    "PreparedModel.ExecuteFenced",
    "PreparedModel.ExecuteFencedWithConfig",
    "Execution.ExecuteSynchronously",
    "Execution.ExecuteFenced",
    "Burst.ExecuteSynchronously",
    "Burst.ExecuteSynchronouslyWithConfig",
    "Channel.Burst",
    "Channel.Run",
    "Channel.Launch",
    "Channel.Chain",
)
"""Every way in which a device executes: calls over gRPC, and channels. A framework on another host has bursts."""
LAUNCHES = (
    "PreparedModel.ExecuteFenced",
    "PreparedModel.ExecuteFencedWithConfig",
    "Execution.ExecuteFenced",
    "Channel.Launch",
)
"""Those of these methods that return before the execution has ended."""
PREPARE = ("Device.PrepareModel", "Device.PrepareModelWithConfig", "Device.PrepareModelFromCache")
"""Every way in which a device prepares a model."""
METHODS = (
    *EXECUTE,
    *PREPARE,
    "Device.GetVersionString",
    "Device.GetType",
    "Device.GetCapabilities",
    "Device.GetSupportedExtensions",
    "Device.GetNumberOfCacheFilesNeeded",
    "Device.GetSupportedOperations",
    "Device.Allocate",
    "PreparedModel.ConfigureExecutionBurst",
    "PreparedModel.CreateReusableExecution",
    "PreparedModel.Release",
    "Execution.OpenLaunchChannel",
    "Execution.OpenRunChannel",
    "Execution.GetRunChannelUsage",
    "Execution.Release",
    "Burst.ReleaseMemoryResource",
    "Burst.Release",
    "Buffer.CopyFrom",
    "Buffer.CopyTo",
    "Buffer.Release",
    "FencedExecutionCallback.GetExecutionInfo",
    "FencedExecutionCallback.Release",
    "Backend.Describe",
    "Backend.AssessModel",
    "Backend.OptimizeSubgraph",
    "Backend.NotifyNetwork",
    "Backend.WireStep",
    "Backend.GetStageUsage",
    "Backend.UnwireStep",
    "Backend.GetUsage",
)
"""Every call of a device that may have a fault, or be recorded by what it was about.

A name is the service of the contract without the word Service, and a method.
"""
