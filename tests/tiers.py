"""The fast tier: every test except those below, which take about nine tenths of the time.

`make test-fast` and the matrix of systems run it; `make test` runs everything. An entry is a folder, a file,
or the beginning of a test name in a file. Measure with ``--durations=50``: the fast tier should end within
two minutes on two cores.
"""

FULL = (
    # clusters, pools and replicas: many processes
    "tests/cluster/",
    "tests/evaluation/cluster/",
    "tests/evaluation/pool/",
    "tests/evaluation/test_program.py",
    "tests/evaluation/replicas/",
    "tests/run/test_noise_in_runs.py",
    "tests/run/test_archive.py::test_kills_lose",
    # thousands of random cases
    "tests/hostile/",
    "tests/run/test_checkpoint_check.py",
    "lab/tests/hostile/",
    "lab/tests/store/test_store.py::test_a_flipped_bit",
    # programs and listings of the documentation, the site
    "tests/docs/test_examples.py",
    "tests/docs/test_pages.py::test_listings",
    "tests/docs/test_readme.py",
    "tests/docs/test_site.py",
    # commands as processes of their own
    "tests/cli/test_long_runs.py",
    "tests/cli/test_noisy_runs_shown.py",
    "tests/cli/test_processes.py",
    "tests/cli/test_resume.py",
    "tests/cli/test_space_command.py",
    "tests/cli/test_streams.py",
    "tests/kernels/test_availability.py",
    "lab/tests/attack/test_forest_missing.py",
    "lab/tests/attack/test_pipeline.py",
    "lab/tests/cli/test_bench_cost.py",
    "lab/tests/cli/test_compare_and_reproduce.py",
    "lab/tests/cli/test_user_problems.py",
    "lab/tests/cli/test_strays.py",
    "lab/tests/experiments/test_partial_runs.py",
    "lab/tests/experiments/test_runner.py",
    # long runs, large arrays, pictures
    "tests/checking/test_twenty_functions.py",
    "tests/kernels/test_arguments.py::test_a_sampling_takes_the_memory",
    "tests/kernels/test_generation.py::test_threads_change_no_bit",
    "tests/kernels/test_normals.py::test_moments",
    "tests/methods/test_family.py::test_hard_cases",
    "tests/output/plotting/",
    "tests/run/test_border.py::test_vd_cma_es",
    "tests/run/test_border.py::test_any_exception_of_an_objective",
    "tests/run/test_constraints.py",
    "tests/run/test_discrete_optima.py::test_success",
    "tests/run/test_features_together.py",
    "tests/run/test_lost_work.py",
    "lab/tests/attack/test_data.py::test_an_idx_file_that_unpacks",
    "lab/tests/attack/test_forest_file.py::test_a_bomb",
    "lab/tests/experiments/test_coco.py::test_published_files",
    "lab/tests/experiments/test_figures_and_report.py",
)
