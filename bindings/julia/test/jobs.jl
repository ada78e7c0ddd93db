# SPDX-License-Identifier: Apache-2.0
# Starts the programs of ranks/ as the processes of a job, as a launcher would.

# What Pkg.test or --project has chosen, with this package and Test in it.
const PROJECT = Base.active_project()

rank_programs() = joinpath.(@__DIR__, "ranks", sort(readdir(joinpath(@__DIR__, "ranks"))))

# A program says on its third line how many ranks it is for.
rank_counts(program) = parse.(Int, split(match(r"^# ranks: ([\d ]+)$"m, read(program, String)).captures[1]))

# The limit on this machine. Limits are for a machine that does nothing else; HVD_TEST_TIME_SCALE=3 allows three times as long.
scaled(seconds) = seconds * parse(Float64, get(ENV, "HVD_TEST_TIME_SCALE", "1"))

# Every rank's exit code, and what all have printed. No rank lives longer than `limit` seconds. Most of the time goes into
# compiling, which `flags` can shorten.
function run_job(program, size; limit=300, arguments=``, flags=``, environment=())
    folder = mktempdir()
    logs = [joinpath(folder, "rank$rank.log") for rank in 0:size - 1]
    processes = map(0:size - 1) do rank
        command = `$(Base.julia_cmd()) $flags --project=$PROJECT $program $arguments`
        settings = Dict(ENV)
        merge!(settings, Dict("HOROVOD_RANK" => "$rank", "HOROVOD_SIZE" => "$size", "HOROVOD_OP_TIMEOUT" => "$(scaled(60))",
                              "HOROVOD_START_TIMEOUT" => "$(scaled(120))", "HOROVOD_RENDEZVOUS" => "file://$folder"), Dict(environment))
        run(pipeline(setenv(command, settings); stdout=logs[rank + 1], stderr=logs[rank + 1]); wait=false)
    end
    deadline = Timer(_ -> foreach(process -> process_running(process) && kill(process, Base.SIGKILL), processes), scaled(limit))
    foreach(wait, processes)
    close(deadline)
    text = join("rank $rank: " * line * "\n" for rank in 0:size - 1 for line in eachline(logs[rank + 1]))
    codes = [process.termsignal == 0 ? process.exitcode : -process.termsignal for process in processes]
    return (codes=codes, text=text)
end
